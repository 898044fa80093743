"""Sends every query of the dashboards and rules to a Prometheus. Fails if a query that should return data returns none.

    ask.py http://127.0.0.1:9090

The script fills in Grafana's variables. An alert may return no data, because a hub without faults has none. Then every
metric in its expression must exist.
"""

import json
import pathlib
import re
import sys
import time
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).parent
WAIT_S = 60

# No data while no such event has occurred, or because of lack of time.
MAY_BE_EMPTY = {
    "upesi_fspiop_refusals_total": "no request was refused",
    "upesi_admission_refused_by_dfsp_total": "no DFSP was over its share or rate",
    "upesi_oracle_": "no external oracle is registered",
    "upesi_quoting_refusals_total": "no quote was refused",
    "upesi_cluster_": "the hub is alone",
}


def fetch(base, path, **parameters):
    query = urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(f"{base}{path}?{query}", timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def dashboard_queries():
    for path in sorted((HERE / "grafana/dashboards").glob("*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
                yield f"{path.stem}: {panel['title']} / {target['legendFormat']}", expression


def wait_for_targets(base):
    deadline = time.monotonic() + WAIT_S
    while True:
        targets = fetch(base, "/api/v1/targets", state="active")["data"]["activeTargets"]
        down = [target["scrapeUrl"] for target in targets if target["health"] != "up"]
        if targets and not down:
            return len(targets)
        if time.monotonic() > deadline:
            sys.exit(f"not up after {WAIT_S} s: {down}")
        time.sleep(0.5)


def ask(base, expression):
    """The number of series, or an error."""
    answer = fetch(base, "/api/v1/query", query=expression)
    if answer["status"] != "success":
        return answer["error"]
    return len(answer["data"]["result"])


def main(base):
    print(f"   {wait_for_targets(base)} targets are up")
    queries = list(dashboard_queries())
    groups = fetch(base, "/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    queries += [(f"recorded: {rule['name']}", rule["name"]) for rule in rules if rule["type"] == "recording"]
    missing = dict(queries)
    failed = []
    rows = {}
    deadline = time.monotonic() + WAIT_S
    # A series that was just scraped for the first time has no rate yet.
    while missing and time.monotonic() < deadline:
        for place, expression in list(missing.items()):
            found = ask(base, expression)
            rows[place] = found
            reason = next((reason for name, reason in MAY_BE_EMPTY.items() if name in expression), None)
            if isinstance(found, str):
                failed.append((place, expression, found))
                del missing[place]
            elif found or reason:
                rows[place] = found or f"none: {reason}"
                del missing[place]
        if missing:
            time.sleep(1)
    width = max(len(place) for place in rows)
    for place, found in rows.items():
        print(f"   {place:<{width}}  {found}")
    failed += [(place, expression, "no data") for place, expression in missing.items()]

    print("── alerts")
    for rule in (rule for rule in rules if rule["type"] == "alerting"):
        print(f"   {rule['name']:<28} {rule['state']:<9} {rule['health']}")
        if rule["health"] != "ok":
            failed.append((rule["name"], rule["query"], rule.get("lastError", "not evaluated")))
        elif rule["state"] == "firing":
            failed.append((rule["name"], rule["query"], "fires at a hub that is well"))
        # Every metric in its expression must exist, or the alert could never fire.
        for name in set(re.findall(r"\b(?:upesi|process)[:_][a-zA-Z0-9_:]+", rule["query"])):
            if not ask(base, name) and not any(known in name for known in MAY_BE_EMPTY):
                failed.append((rule["name"], name, "no such metric"))
    if failed:
        for place, expression, why in failed:
            print(f"FAILED {place}\n       {expression}\n       {why}", file=sys.stderr)
        sys.exit(1)
    print(f"   {len(rows)} queries and {sum(rule['type'] == 'alerting' for rule in rules)} alerts are answered")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"))
