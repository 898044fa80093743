# Upesi. `make` without a target lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
MAKEFLAGS += --no-print-directory --no-builtin-rules

CARGO ?= cargo
# The lock file is part of the source: a build that would change it fails.
LOCKED := --locked
UPESI := target/release/upesi
# The binary of `make demo`, built in minutes without the parts that the demo does not need (profile `demo` in
# Cargo.toml).
DEMO := target/demo/upesi
# Files for later, incremental builds double the disk and slow down the first build. Only `make quick` uses them.
export CARGO_INCREMENTAL ?= 0
quick: export CARGO_INCREMENTAL := 1
# The commit in lab results and evidence. A + means that sources differ from it.
export UPESI_COMMIT := $(shell git rev-parse --short HEAD 2>/dev/null)$(shell git diff --quiet HEAD -- crates tools Cargo.toml Cargo.lock 2>/dev/null || { test $$? -ne 1 || echo +; })

.PHONY: help tools programs build demo cluster-away cluster-demo cluster-limits cluster-roles beside manifests quick test fmt format lint unit tidy prose bare deny docs bench characterize soak overload grow monitor torture fuzz coverage mutants evidence clean

help: ## Prints this list.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target text; do
	    printf '  make %-12s %s\n' "$$target" "$$text"
	done

tools:
	@.ci/tools

# The environment for builds of tests. Clippy's driver is the compiler with more lints: it lints the programs while it
# builds them, so that no dependency is compiled twice. Compiling OpenSSL takes minutes, so tests link the system's
# OpenSSL 3 if it is installed.
TESTED = env RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ \
	$$(pkg-config --atleast-version=3 openssl 2>/dev/null && echo OPENSSL_NO_VENDOR=1)

programs: # The test programs and benchmarks; Clippy's warnings are errors.
	@.ci/tools tests
	$(TESTED) $(CARGO) test --workspace --all-targets $(LOCKED) --no-run

build: tools ## The upesi binary, optimised: target/release/upesi.
	@$(CARGO) build --release $(LOCKED) -p upesi

demo: ## A hub with eight simulated DFSPs: one payment step by step, then load, then the audit. KEEP=1 leaves it running.
	@.ci/tools demo
	.ci/build-demo $(DEMO)
	$(DEMO) demo $(if $(KEEP),--keep)

cluster-demo: build ## Three brokers and three hubs under load; each part fails once. Prints the outages and the audit of all copies.
	@tools/kafka/demo

cluster-roles: build ## The CPU cost of each role of a node, with three brokers and three hubs on this machine: RATE=300 SECONDS=20 ROUNDS=3.
	@tools/kafka/roles $(UPESI) $(or $(RATE),300) $(or $(SECONDS),20) $(or $(ROUNDS),3)

cluster-away: build ## The brokers of three hubs are down for MINUTES=60 during payments, and come back.
	@tools/kafka/away $(UPESI) $(or $(MINUTES),60)

cluster-limits: build ## The limits of a cluster whose brokers, hubs and load share this machine: SECONDS=15 ROUNDS=3.
	@tools/kafka/limits $(UPESI) $(or $(SECONDS),15) $(or $(ROUNDS),3)

beside: build ## Compares another binary with this one; both run at the same time, each with its own load: OLD=path USERS=160 ROUNDS=9.
	@.ci/beside $(or $(OLD),$(error OLD=path of another upesi)) $(UPESI) $(or $(USERS),160) $(or $(ROUNDS),9)

quick: ## Checks your change in about a minute: format, house rules, Clippy and quick tests of the changed crates. BASE=main.
	@.ci/tools quick
	$(TESTED) $(CARGO) run --quiet $(LOCKED) -p upesi-runner -- quick $(BASE)

test: tools ## Everything: format, lint, unit, property, integration and end-to-end tests. Prints the minutes of each part.
	@.ci/parts fmt programs deny bare unit

manifests: build ## Checks the chart and the compose file with helm and with compose's loader, built with Go (minutes, once).
	@packaging/manifests/check

fmt: tools ## Checks the format of code; `make format` corrects it.
	@$(CARGO) fmt --all -- --check

format: tools ## Corrects the format of code, and wraps comments and pages that are too wide.
	@$(CARGO) fmt --all
	$(TIDY) format

lint: tools ## Clippy on all targets; warnings are errors.
	@$(CARGO) clippy --workspace --all-targets $(LOCKED) -- -D warnings

unit: ## All tests of all crates. Fetches Kafka, an OpenID Connect provider, SoftHSM and promtool for them. PROFILE=full: ten times the cases.
	@.ci/tools tests
	tools/kafka/brokers jars >/dev/null
	$(TESTED) $(CARGO) run --quiet $(LOCKED) -p upesi-runner -- tests $(or $(PROFILE),ci)

# The pure crates: no_std, and compiled for a machine without an operating system.
PURE := types fspiop ledger admission cluster
BARE := thumbv7em-none-eabi

TIDY := $(TESTED) $(CARGO) run --quiet $(LOCKED) -p upesi-tidy --

tidy: deny bare ## The house rules: layers, order of imports, purity, widths, wording, spelling, dead files, licences.
	@$(TESTED) $(CARGO) test --quiet $(LOCKED) -p upesi-tidy

prose: tools ## Counts constructions that make English hard to read: BASE=main for your change, LIST=all or a name for the lines.
	@$(TIDY) prose $(BASE:%=--change %) $(LIST:%=--list %) $(if $(LIMITS),--limits)

bare: # The pure crates, for a machine without an operating system.
	@[ -d "$$(rustc --print sysroot)/lib/rustlib/$(BARE)" ] || rustup target add $(BARE) ||
	    { echo >&2 "make bare: the Rust target $(BARE) is needed: rustup target add $(BARE)"; exit 69; }
	$(CARGO) check $(LOCKED) --target $(BARE) $(PURE:%=-p upesi-%)

deny: tools ## Licences, banned crates and sources of all dependencies. Installs cargo-deny if it is missing.
	@# Unoptimised and without debug information it is built in half the time, and its check still takes seconds.
	command -v cargo-deny >/dev/null || CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install --debug --locked cargo-deny
	$(CARGO) deny --workspace check bans licenses sources

docs: tools ## Writes Grafana's dashboards from their sources.
	@UPESI_WRITE_DOCS=1 $(CARGO) test $(LOCKED) -p upesi --test journeys monitoring

characterize: build ## The runs behind the figures of docs/characterization, within an hour: out/characterize/report.html.
	@$(UPESI) lab suite characterize --out out/characterize

# Duration of `make soak`. Only an hour or more meets T2 of the 2020 programme.
MINUTES ?= 60

soak: build ## An hour (MINUTES=60) of transfers at 70 % of the breakpoint, to find drift. Fails if the load was not held, or if the figures are not valid. A run of an hour or more is kept: out/soak/hour.json.
	@rm -f out/soak/breakpoint/result.json out/soak/run/result.json
	$(UPESI) lab run breakpoint-transfers --out out/soak/breakpoint || { echo >&2 "make soak: without a breakpoint there is no rate for the soak: see the reason above"; exit 1; }
	rate=$$(sed -n 's/.*"highest_met_per_s": \([0-9][0-9]*\).*/\1/p' out/soak/breakpoint/result.json)
	[ -n "$$rate" ] || { echo >&2 "make soak: out/soak/breakpoint/result.json has no highest_met_per_s, so there is no rate for the soak"; exit 1; }
	status=0
	$(UPESI) lab run soak --rate $$((rate * 70 / 100)) --duration $(MINUTES)m --hub-argument=--set=data.keep_segments=needed --out out/soak/run || status=$$?
	[ $(MINUTES) -lt 60 ] || [ ! -e out/soak/run/result.json ] || cp out/soak/run/result.json out/soak/hour.json
	[ ! -e out/soak/run/result.json ] || $(UPESI) lab report out/soak/run --html out/soak/report.html
	[ $$status -eq 0 ] || echo >&2 "make soak: the soak did not pass: the reason is above, its page is out/soak/report.html"
	exit $$status

overload: build ## Ten times the load that the hub is set to accept (PEAK=600 per second), from all DFSPs, then from one: docs/evidence/overload.json.
	@status=0
	rm -rf out/overload
	$(UPESI) lab overload --peak $(or $(PEAK),600) --runs 3 --out out/overload/all --report docs/evidence || status=$$?
	$(UPESI) lab overload --peak $(or $(PEAK),600) --flood-from 1 --runs 3 --out out/overload/one --report docs/evidence || status=$$?
	$(MAKE) evidence
	exit $$status

grow: build ## A hub with a history of TRANSFERS=100000000 (takes hours): curves, goals, maintenance under load: docs/evidence/growth.json.
	@status=0
	rm -rf out/grow
	mkdir -p out/grow
	$(UPESI) lab grow --data out/grow/data --transfers $(or $(TRANSFERS),100000000) --out out/grow/curves --report docs/evidence || status=$$?
	$(UPESI) lab report out/grow/curves --html out/grow/report.html
	$(MAKE) evidence
	exit $$status

bench: tools ## The benchmarks: ledger, engine, journal, archive, store, messages, TLS handshakes.
	@$(CARGO) bench --workspace $(LOCKED)

monitor: build ## Tests Prometheus rules and dashboards: promtool, then every query against a hub under load.
	@monitoring/try.sh

torture: build ## Millions of injected faults, for two hours at most; a later call continues with new seeds. ONLY=crash-images MINUTES=10 JOBS=1 for a part.
	@status=0
	$(CARGO) run --profile torture $(LOCKED) --quiet -p upesi-torture -- $(or $(ONLY),all) --minutes $(or $(MINUTES),115) --jobs $(or $(JOBS),2) --binary $(UPESI) --report docs/evidence || status=$$?
	$(MAKE) evidence
	exit $$status

fuzz: tools ## All parsers under libFuzzer, SECONDS_EACH=30 for each, JOBS=2 at a time; TARGETS="bodies journal" for some.
	@tools/fuzz/libfuzzer/run

coverage: tools ## Coverage of types, fspiop, admission, ledger, journal and tables by their tests: out/coverage/coverage.md.
	@.ci/coverage

mutants: tools ## Small faults in ledger, journal, tables, engine and delivery that their tests must detect: out/mutants/mutants.md; a later call continues. MINUTES=45 CRATES=engine ONLY="queue decider/*" JOBS=2.
	@.ci/mutants

evidence: ## Writes the table of docs/reliability.md from docs/evidence.
	@$(CARGO) run $(LOCKED) --quiet -p upesi-torture -- table

clean: ## Removes all build results.
	@$(CARGO) clean
