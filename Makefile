# TreeDB. `make demo` shows it, `make test` tests it, `make help` lists the rest.

PG_CONFIG ?= pg_config
SUITE ?= all
ROUNDS ?= 300
FRAMES ?= 1000000
OPERATIONS ?= 100000
SECONDS_EACH ?= 60
SECONDS_LONG ?= 600
export PG_CONFIG

.PHONY: arm64 reliability fuzz-frames anomalies pg-assert pg-others instructions schedules kill soak miri fuzz help demo test build release static install bench bench-docs lint setup clean

help: ## This list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: ## Install the packages that building and testing need, where they are missing
	@scripts/setup.sh

demo: setup ## Build, load 60,000 real documents, ask all three doors the same questions
	@scripts/demo.sh

test: setup ## Everything: unit, model, crash, driver and Postgres tests; ends with `N passed, N failed`
	@scripts/run_tests.py

build: ## Library and server, development profile
	cargo build

release: ## Library and server, optimised
	cargo build --release

static: ## The server as one statically linked file, for any Linux of this architecture: target/static/treedb
	@scripts/static.sh

install: setup ## Build the extension and install it into PG_CONFIG's Postgres (default: the one on PATH)
	@scripts/pg_install.sh "$(PG_CONFIG)"

bench: ## Compare TreeDB with its peers (SUITE=name, or all): a table, and bench/results/NAME.json
	@scripts/bench.sh $(SUITE)

bench-docs: ## Write docs/benchmarks.md, its pictures and the README's table from bench/results/
	@cargo run -q --release -p bench -- docs

instructions: setup ## Instructions of the hot paths under callgrind, against bench/instructions/counts.json
	@scripts/instructions.py

schedules: ## Thousands of thread schedules over the lock-free and locking code
	@scripts/run_tests.py schedules

kill: ## kill -9 of a process that uses the library and of the server, 300 rounds each (ROUNDS=n)
	@TREEDB_KILL_ROUNDS=$(ROUNDS) cargo test -p treedb_storage --test kill -- --nocapture
	@scripts/kill_rounds.sh $(ROUNDS)
	@scripts/kill_rounds.sh --retries $(ROUNDS)

fuzz-frames: ## A million malformed frames for both protocols against the server (FRAMES=n)
	@scripts/frame_tests.sh $(FRAMES)

anomalies: ## 100,000 operations in transactions, whose history is searched for anomalies (OPERATIONS=n)
	@scripts/anomaly_tests.sh $(OPERATIONS)

reliability: ## All of kill, fuzz-frames and anomalies, several hours: what was counted, and of which commit, is in target/reliability.json
	@ROUNDS=$(ROUNDS) FRAMES=$(FRAMES) OPERATIONS=$(OPERATIONS) scripts/reliability.py

pg-assert: setup ## The Postgres suites on a PostgreSQL 15 with assertions, built from Debian's source first (ten minutes)
	@PG_CONFIG=$$(scripts/pg/source_server.sh 15 --asserts) && export PG_CONFIG && \
	    scripts/run_tests.py pg_regress pg_on_treedb pg_isolation pg_crash pg_crash_points pg_hostile pg_twin pg_faults pg_versions pg_doors

pg-others: setup ## The Postgres suites on 16 and on 17, which is built from Debian's source first (`make test` has 15 and 18)
	@for major in 16 17; do \
	    PG_CONFIG=$$(scripts/pg/server.sh $$major) && export PG_CONFIG && \
	    scripts/run_tests.py pg_regress pg_on_treedb pg_isolation pg_crash pg_crash_points pg_hostile pg_twin pg_faults pg_doors || exit; \
	done

soak: ## A mixed load for SECONDS_LONG seconds, with sizes and memory checked against their bounds
	@cargo run -q --release -p treedb_storage --example soak -- $(SECONDS_LONG)

miri: ## Miri over codecs, nodes, pages and trees in memory (needs a nightly toolchain with miri)
	@scripts/miri.sh

arm64: ## Library and server for 64-bit ARM: compiled, and unit tests in QEMU's emulation, which is installed
	@scripts/arm64.sh

fuzz: ## Each fuzz target for SECONDS_EACH seconds (needs a nightly toolchain and cargo-fuzz)
	@scripts/fuzz.sh $(SECONDS_EACH)

lint: ## rustfmt, clippy and the layer check
	@scripts/run_tests.py layers format clippy

clean:
	cargo clean
