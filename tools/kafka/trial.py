"""Brokers, hubs and load on this machine, for the trials of clusters: `roles`, `limits` and `away`."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
# PORTS=1000 adds this number to all ports, for parallel trials.
MOVED = int(os.environ.get("PORTS", 0))
PORT, BROKERS_AT = 15000 + MOVED, 21290 + MOVED
DEADLINE_S = 120
TICKS = os.sysconf("SC_CLK_TCK")


def port(number):
    return PORT + 10 * number


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def ask(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return json.load(answer)


def is_well(number):
    return ask(port(number), "/health")["status"] == "OK"


def wait_until(what, is_so):
    """Waits until the condition is true. Returns the seconds."""
    begun = time.monotonic()
    while True:
        with contextlib.suppress(OSError):
            if is_so():
                return time.monotonic() - begun
        if time.monotonic() > begun + DEADLINE_S:
            sys.exit(f"{what}: still not the case after {DEADLINE_S} s")
        time.sleep(0.1)


class Brokers:
    """Three brokers, and certificates for nodes."""

    def __init__(self, upesi):
        self.upesi = upesi

    def __enter__(self):
        self.space = tempfile.TemporaryDirectory()
        space, quiet = pathlib.Path(self.space.name), {"check": True, "stdout": subprocess.DEVNULL}
        self.kafka, self.tls = space / "kafka", space / "tls"
        subprocess.run([self.upesi, "pki", "init", "--dir", self.tls, "--name", "nodes"], **quiet)
        issue = [self.upesi, "pki", "issue", "node", "--dir", self.tls, "--for", "node", "--host", "127.0.0.1"]
        subprocess.run(issue, **quiet)
        as_in_operation = {**os.environ, "TIER": "4"}
        subprocess.run([HERE / "brokers", "up", self.kafka, "3", str(BROKERS_AT)], env=as_in_operation, **quiet)
        listed = subprocess.run([HERE / "brokers", "list", self.kafka], check=True, capture_output=True, text=True)
        self.addresses = listed.stdout.strip()
        return self

    def __exit__(self, *_):
        subprocess.run([HERE / "brokers", "down", self.kafka], check=False)
        self.space.cleanup()


class Hubs:
    """Processes of hubs, each with its own directory. They end with this object."""

    def __init__(self, upesi):
        self.upesi, self.processes = upesi, {}

    def __enter__(self):
        self.kept = tempfile.TemporaryDirectory()
        self.space = pathlib.Path(self.kept.name)
        return self

    def __exit__(self, *_):
        for number in list(self.processes):
            self.stop(number)
        self.kept.cleanup()

    def start(self, number, settings):
        data = self.space / f"data-{number}"
        ports = {"fspiop.listen": f"127.0.0.1:{port(number)}", "admin.listen": f"127.0.0.1:{port(number) + 1}"}
        log = (self.space / f"{number}.log").open("a")
        command = [self.upesi, "serve", "--data", data, *as_arguments({**ports, **settings})]
        self.processes[number] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)

    def stop(self, number):
        process = self.processes.pop(number)
        process.terminate()
        process.wait()

    def begin_alone(self):
        """Starts a standalone hub."""
        self.start(0, {})
        wait_until("the hub serves", lambda: is_well(0))

    def begin(self, brokers, roles):
        """Starts a node for each of `roles`: whether it delivers callbacks. The first node becomes leader."""
        self.settings = dict(nodes(self.space.name, brokers, roles))
        create = [self.upesi, "cluster", "create-topic", *as_arguments(self.settings[0])]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
        for number, of_node in self.settings.items():
            self.start(number, of_node)
            wait_until(f"node {number} serves", lambda: is_well(number))

    def begin_load(self, edge, leader, *arguments):
        """Begins to load one node. Returns the process and the path of its result."""
        result = self.space / "result"
        command = [self.upesi, "lab", "run", "transfers", *map(str, arguments), "--target", f"http://127.0.0.1:{port(edge)}",
                   "--admin", f"http://127.0.0.1:{port(leader) + 1}", "--out", result]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), result / "result.json"

    def load(self, edge, leader, *arguments):
        """Loads one node. Returns the lab's result, and the CPU time of each hub per transfer, in microseconds."""
        before = {number: cpu_s(process.pid) for number, process in self.processes.items()}
        process, result = self.begin_load(edge, leader, *arguments)
        process.wait()
        found = json.loads(result.read_text())
        if found["audit"]["findings"] or found["lost"]:
            sys.exit(f"the load lost transfers or its audit fails: {found['audit']}")
        spent = [cpu_s(process.pid) - before[number] for number, process in sorted(self.processes.items())]
        return found, [each * 1e6 / found["completed"] for each in spent]


def as_arguments(settings):
    return [argument for name, value in settings.items() for argument in ("--set", f"{name}={value}")]


def nodes(topic, brokers, roles):
    """Settings of nodes, one for each of `roles`: whether it may deliver callbacks."""
    cluster = os.urandom(16).hex()
    places = ",".join(f"{number}=127.0.0.1:{port(number) + 2}" for number in range(len(roles)))
    for number, delivers in enumerate(roles):
        yield number, {
            "cluster.log": "kafka", "cluster.id": cluster, "cluster.node": number, "cluster.rank": number,
            "cluster.brokers": brokers.addresses, "cluster.topic": pathlib.Path(topic).name,
            "cluster.address": f"http://node-{number}", "cluster.may_lead": "true" if number == 0 else "false",
            "cluster.may_deliver": "true" if delivers else "false",
            "cluster.listen": f"127.0.0.1:{port(number) + 2}", "cluster.nodes": places,
            "cluster_tls.certificate_file": brokers.tls / "node.pem", "cluster_tls.key_file": brokers.tls / "node.key",
            "cluster_tls.anchors_file": brokers.tls / "ca.pem",
        }
