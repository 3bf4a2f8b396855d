# Set-up, demo, tests, checks and benchmarks: one target each. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
export PYTHON
BINDIR ?= /usr/bin
VENV := .venv
BIN := $(VENV)/bin
TREE := build/tree
RESULTS := research/benchmarks/results
PINS := constraints.txt
DEV_PINS := constraints-dev.txt
INSTALLED_FROM := pyproject.toml $(PINS) packaging/environment.sh

# the benchmark of the main job first, then every other script of research/benchmarks/ that can be run
BENCHMARKS := main_job $(filter-out main_job,$(basename $(notdir $(shell grep -ls __main__ research/benchmarks/*.py))))
BENCHMARK_OPTIONS_simulation := --json $(RESULTS)/simulation.json

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1 \2/' |
	while read -r name what; do printf '%-14s %s\n' "$$name" "$$what"; done

.PHONY: demo
demo: $(VENV)/.installed-embedded ## set up, then run jobs of every kind for real: database, nodes, jobs, accounting
	@$(BIN)/oarpy demo --directory .oarpy/demo </dev/null

.PHONY: grid-demo
grid-demo: $(VENV)/.installed-embedded ## set up, then a broker and three clusters for real: as root
	@$(BIN)/oarpy grid demo </dev/null

.PHONY: test
test: $(VENV)/.installed-dev ## set up, then check everything and run every test
	@$(MAKE) --jobs=3 --output-sync check services tools
	$(BIN)/python packaging/run_tests.py </dev/null

.PHONY: test-quick
test-quick: $(VENV)/.installed-dev ## the tests that need no database and no server, with a twentieth of the random examples
	@$(BIN)/python packaging/run_tests.py --quick </dev/null

.PHONY: test-clients
test-clients: $(VENV)/.installed-clients ## Snakemake, Parsl, AiiDA, JupyterHub, and Open OnDemand where ruby is, with their plugins of integrations/
	@$(BIN)/python -m pytest tests/integrations/test_clients.py </dev/null

.PHONY: booted
booted: $(VENV)/.installed-dev ## the guide for admins on machines that systemd boots, with an update: as root on Debian, some minutes
	@$(BIN)/python -m tests.campaigns.booted_machines </dev/null

.PHONY: test-latest
test-latest: $(VENV)/.installed-dev ## use the wheel with the newest versions of libraries, and with the lowest it takes
	@$(BIN)/python packaging/test_latest.py </dev/null

.PHONY: check
check: $(VENV)/.installed-dev ## style, types, import contracts, lengths: no database, no test
	@$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python packaging/lengths.py
	$(BIN)/python packaging/layout.py
	$(BIN)/python packaging/source_tree.py $(TREE)
	$(BIN)/python packaging/check_types.py $(TREE)
	cd $(TREE) && $(CURDIR)/$(BIN)/lint-imports --no-logo --config $(CURDIR)/pyproject.toml

.PHONY: bench
bench: $(VENV)/.installed-dev ## measure; tables on standard output, JSON in research/benchmarks/results/
	@mkdir -p $(RESULTS)
	$(foreach name,$(BENCHMARKS),
	echo '$$ oarpy bench $(name) $(BENCHMARK_OPTIONS_$(name))'
	$(BIN)/oarpy bench $(name) $(BENCHMARK_OPTIONS_$(name)) </dev/null
	)

.PHONY: docs
docs: pages ## write the generated pages of docs/ and the transcript of the demo again
	@$(BIN)/python docs/transcript.py </dev/null

.PHONY: pages
pages: $(VENV)/.installed-dev ## write the generated pages of docs/ again, without the demo
	@for script in generate command_pages schema_pages man_pages; do $(BIN)/python docs/$$script.py </dev/null; done

.PHONY: site
site: $(VENV)/.installed-dev ## build the site of docs/ into build/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file mkdocs.yml </dev/null

.PHONY: man
man: $(VENV)/.installed-dev ## write the man pages from the commands again, and check them where groff is
	@$(BIN)/python docs/man_pages.py </dev/null
	if command -v groff >/dev/null; then groff -man -Tutf8 -ww -z packaging/man/*.1; fi

.PHONY: release-schema
release-schema: $(VENV)/.installed-dev ## make the newest revision the baseline, and compare what older clusters become
	@$(BIN)/python packaging/release_schema.py </dev/null
	$(BIN)/ruff format --quiet migrations
	$(BIN)/ruff check --quiet --fix migrations
	$(BIN)/python -m pytest --quiet tests/db/test_schema_migrations.py </dev/null

.PHONY: clean
clean: ## remove what the other targets made, the demo's cluster included
	@if [ -x $(BIN)/python ] && [ -d .oarpy ]; then $(BIN)/python packaging/remove_clusters.py .oarpy; fi
	rm -rf $(VENV) build dist *.egg-info .oarpy .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: units
units: ## install the systemd units, with user and folders: as root, after oarpy is in $(BINDIR)
	@install -d $(DESTDIR)/etc/systemd/system $(DESTDIR)/etc/sysusers.d $(DESTDIR)/etc/tmpfiles.d
	for unit in packaging/systemd/*.service packaging/systemd/*.target; do
	  sed 's|/usr/bin/|$(BINDIR)/|' "$$unit" >"$(DESTDIR)/etc/systemd/system/$${unit##*/}"
	done
	install -m 644 packaging/systemd/sysusers.d/oarpy.conf $(DESTDIR)/etc/sysusers.d/oarpy.conf
	install -m 644 packaging/systemd/tmpfiles.d/oarpy.conf $(DESTDIR)/etc/tmpfiles.d/oarpy.conf
	if [ -z "$(DESTDIR)" ]; then systemd-sysusers oarpy.conf; systemd-tmpfiles --create oarpy.conf; fi

.PHONY: deb
deb: $(VENV)/.installed-dev ## build the Debian package into build/, with the versions of this environment
	@rm -rf build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel .
	$(BIN)/python packaging/debian/build.py build/wheel/*.whl build

.PHONY: services
services: # what Debian has to provide for the tests, where it may be installed
	@packaging/services.sh

.PHONY: tools
tools: $(VENV)/.installed-tools # what drives a cluster from outside: Dask, submitit and others, for the tests

$(VENV)/.installed-tools: packaging/tools.txt | $(VENV)/.installed-dev
	@echo "installing packaging/tools.txt into $(VENV)/tools"
	$(BIN)/python -m venv --clear --without-pip $(VENV)/tools
	$(BIN)/python -m pip --quiet --python $(VENV)/tools/bin/python install --no-deps --no-compile -r packaging/tools.txt </dev/null
	touch $@

$(VENV)/.installed-clients: packaging/clients.txt $(wildcard integrations/*/pyproject.toml) | $(VENV)/.installed-dev
	@echo "installing packaging/clients.txt into $(VENV)/clients"
	$(BIN)/python -m venv --clear --without-pip $(VENV)/clients
	install="$(BIN)/python -m pip --quiet --python $(VENV)/clients/bin/python install --no-deps"
	$$install --no-compile -r packaging/clients.txt </dev/null
	for client in snakemake parsl aiida batchspawner; do $$install --no-build-isolation -e integrations/$$client </dev/null; done
	touch $@

$(VENV)/.installed-dev: $(INSTALLED_FROM) $(DEV_PINS)
	@packaging/environment.sh $(VENV) $(PINS) $(DEV_PINS)
	touch $(VENV)/.installed-embedded $@

$(VENV)/.installed-embedded: $(INSTALLED_FROM)
	@packaging/environment.sh $(VENV) $(PINS)
	touch $@
