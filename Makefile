# One command for everything: every target sets up .venv first, which costs nothing when it is there.
#
# `make` itself answers 2 for any recipe that fails, so `make cluster` cannot hand on the storm's own exit code. It
# prints it at the end; `.venv/bin/noeta cluster` exits with it: 0 valid, 1 invalid, 2 unknown, 3 harness error,
# 64 bad usage. Variables reach the commands from the environment or as make variables alike:
# `make cluster NOETA_CLUSTER_SEED=7`.

.DEFAULT_GOAL := help
.PHONY: help bootstrap check quick cluster sim mutants bench docs clean

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest

# Exported only when set, so that an unset one stays unset for the commands.
define hand_on
ifdef $(1)
export $(1)
endif
endef
$(foreach name,NOETA_CLUSTER_SEED NOETA_CLUSTER_TASKS NOETA_CLUSTER_SECONDS NOETA_CLUSTER_STORE \
    NOETA_TEST_POSTGRES_DSN NOETA_POSTGRES,\
    $(eval $(call hand_on,$(name))))

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  make cluster takes NOETA_CLUSTER_SEED, NOETA_CLUSTER_TASKS, NOETA_CLUSTER_SECONDS and NOETA_CLUSTER_STORE (as"
	@echo "  sqlite:); with NOETA_TEST_POSTGRES_DSN it uses that server. make answers 2 for any failure: the storm's own exit code"
	@echo "  (0 valid, 1 invalid, 2 unknown, 3 harness error, 64 bad usage) is printed at the end, and is what"
	@echo "  .venv/bin/noeta cluster exits with."

bootstrap: ## make .venv, or bring it up to date
	@sh ci/bootstrap.sh

check: bootstrap ## format, lint, import contracts, types, promises, every test (Postgres included); never the storm
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/lint-imports
	.venv/bin/mypy
	$(PYTHON) -m invariants.promises --check
	$(PYTEST) -n auto

quick: bootstrap ## between two edits: lint, types, and the tests that need no Postgres and are not slow
	.venv/bin/ruff check .
	.venv/bin/mypy
	$(PYTEST) -n auto -q -m "not pg and not slow and not cluster"

cluster: bootstrap ## the storm: real workers, real Postgres, real signals; a seed repeats its plan
	@code=0; .venv/bin/noeta cluster || code=$$?; \
	case $$code in \
	    0) verdict=valid ;; 1) verdict=invalid ;; 2) verdict=unknown ;; 3) verdict='harness error' ;; \
	    64) verdict='bad usage' ;; *) verdict='ended by a signal or a crash' ;; \
	esac; \
	echo "noeta cluster: exit code $$code ($$verdict)"; exit $$code

sim: bootstrap ## the same workers in one process under a seeded scheduler and virtual time
	.venv/bin/noeta sim

mutants: bootstrap ## plant every known bug, one at a time; each must be caught
	$(PYTHON) -m tests.mutants

bench: bootstrap ## measure against the baselines in one run
	$(PYTHON) -m bench

docs: bootstrap ## regenerate docs/promises.md from the laws, and the pages of promised sentences from the tests
	@mkdir -p docs
	$(PYTHON) -m invariants.promises > docs/.promises.new && mv docs/.promises.new docs/promises.md
	$(PYTHON) -m tests.promised

clean: ## remove .venv, caches and build products; runs/ stays, it is evidence
	rm -rf .venv .venv.lock build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
