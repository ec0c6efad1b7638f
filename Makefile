# Two commands on a fresh machine: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: help setup demo live live-demo test test-long mutants check bench compare install-service clean docs

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: $(STAMP) ## environment in .venv with the command `implicast`; Java 17+ found or installed
	@sh tools/java.sh

$(STAMP): pyproject.toml constraints.txt
	@sh tools/setup.sh "$(PYTHON)" "$(VENV)"
	@touch $(STAMP)

demo: setup ## compare all designs on embedded Spark and write a report
	@$(BIN)/python -m implicast.lab.demo out/demo

live: setup ## a network of 50 processes on this machine for each design, judged; a table
	@$(BIN)/python -m implicast.net.commands.demo

live-demo: setup ## twenty invented researchers on this machine, and the page of one of them
	@$(BIN)/python -m implicast.web.demo

test: setup check ## format, lint, types and all tests but the long ones
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "not long"

test-long: setup ## the long proofs
	@$(BIN)/python -m pytest -m long

mutants: setup ## 60 small faults in engines and judge: the share that the tests catch; up to two hours
	@$(BIN)/python tools/mutants.py --count 60 --seed $${SEED:-1}

check: setup ## format, lint and types
	@$(BIN)/ruff format --check --quiet src tests bench examples tools setup.py
	@$(BIN)/ruff check src tests bench examples
	@$(BIN)/mypy

docs: setup ## the documentation as a site, out/site/index.html
	@$(BIN)/python tools/site.py out/site

bench: setup ## what a simulated message costs, beside SimPy; memory
	@$(BIN)/python bench/run.py

compare: setup ## Implicast beside NATS, Mosquitto, Redis, Zenoh and Serf, in a network namespace of its own (as root)
	@sh bench/live/install.sh out/rivals $(BIN)/python
	@$(BIN)/python bench/live/run.py --home out/rivals

install-service: setup ## the systemd unit of nodes: for the machine as root, else for oneself
	@sh tools/install-service.sh $(BIN)

clean: ## remove the environment and everything made
	rm -rf $(VENV) out build src/implicast/*/_*.c src/implicast/*/*/_*.c src/implicast/*/_*.so src/implicast/*/*/_*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info spark-warehouse
