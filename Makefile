# The same names as in scripts/, which need no make. Arguments: make test TEST_ARGS='tests/leads -k consent'
.DEFAULT_GOAL := help
.PHONY: help demo test-fast test check docs bench soak release

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile

demo: ## a dealer agent with an invented dealer on http://127.0.0.1:8080 (DEMO_ARGS)
	@scripts/demo $(DEMO_ARGS)

test-fast: ## the tests of pure code, in under 30 seconds (TEST_ARGS go to pytest)
	@scripts/test-fast $(TEST_ARGS)

test: ## the whole test suite (TEST_ARGS go to pytest)
	@scripts/test $(TEST_ARGS)

check: ## lint, format, types, import law
	@scripts/check

docs: ## the documentation site, in site/; writes the generated pages of docs/reference
	@scripts/docs

bench: ## the figures of the README, measured on this machine (BENCH_ARGS)
	@scripts/bench $(BENCH_ARGS)

soak: ## the same tests in their long form (TEST_ARGS)
	@scripts/soak $(TEST_ARGS)

release: ## wheel and source distribution in dist/, installed into an empty environment and started
	@scripts/release
