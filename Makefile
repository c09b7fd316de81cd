# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0

# Front door of the build: every target installs what it needs first, and stands on a CMake preset.

# Settings, from the environment or the command line.
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
# auto, on, off or found: what to do where there is no CUDA toolkit (scripts/setup.sh)
CUDA ?= auto
# The interpreter that virtual environments stand on.
PYTHON ?= python3
export CUDA PYTHON
export PATH := $(CURDIR)/.deps/bin:$(PATH)

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.DEFAULT_GOAL := help

# $(call build,PRESET,FOLDER[,TARGETS])
build = @scripts/configure.sh $(1) $(2) && cmake --build --preset $(1) --parallel $(JOBS) $(if $(3),--target $(3))

##@ Use
.PHONY: demo build install

# On the CPU device: it builds with a CUDA toolkit that is there, and fetches none.
demo: export CUDA := $(patsubst auto,found,$(CUDA))
demo: build  ## Start spind, replay a recorded trace through it, show what it did
	@scripts/demo.sh

build: setup-build  ## Build spind and spinctl into build/bin
	$(call build,release,build,spind spinctl)

install: setup-build  ## Install programs, headers and CMake package under PREFIX (/usr/local)
	$(call build,release,build,spind spinctl spin_client)
	@cmake --install build --prefix $(PREFIX)

##@ Test
.PHONY: all test test-unit test-e2e test-replays bench

all: setup-build  ## Build everything: programs, examples, tests, benchmarks
	$(call build,release,build)

test: test-unit test-e2e  ## Build everything, run all tests (ctest, then pytest)

test-unit: setup-test all  ## Run the C++ tests, and the build of a project that uses the package
	@ctest --preset release -j 2

test-e2e: setup-test all  ## Run the end-to-end tests of spind and spinctl, in Python
	@scripts/python_stubs.sh
	@.deps/venv/bin/python -m pytest tests/e2e

test-replays: setup-test all  ## Replay every recorded trace at every setting (minutes; needs SPIN_TRACES_DIR)
	@scripts/python_stubs.sh
	@.deps/venv/bin/python -m pytest tests/e2e -m slow

bench: all  ## Run the benchmarks
	@scripts/bench.sh

##@ Sanitizers
.PHONY: asan tsan

asan: setup-build  ## Run the C++ tests under AddressSanitizer and UBSan
	$(call build,asan,build-asan)
	@ctest --preset asan -j 2

tsan: setup-build  ## Run the C++ tests labelled `concurrent` under ThreadSanitizer
	$(call build,tsan,build-tsan,concurrent_tests)
	@ctest --preset tsan -j 2

##@ Style
.PHONY: format lint proto-lint tidy

format: setup-lint  ## Rewrite the C++ sources in the house format
	@scripts/lint.sh format-fix

lint: setup-lint  ## Check format, contract, scripts, layers and licence lines
	@scripts/lint.sh all

proto-lint: setup-lint  ## Check the contract only
	@scripts/lint.sh proto

tidy: setup-tidy all  ## Run clang-tidy over the C++ sources (minutes)
	@scripts/tidy.sh $(JOBS)

##@ House-keeping
.PHONY: help clean distclean setup-build setup-test setup-lint setup-tidy

help:  ## Show this list
	@awk -f scripts/help.awk $(MAKEFILE_LIST)

clean:  ## Remove what was built
	@rm -rf build build-*/

distclean: clean  ## Remove also what was installed into .deps (toolkit, Python packages)
	@rm -rf .deps

setup-build:  ## Install what building needs
	@scripts/setup.sh build

setup-test:  ## Install what testing needs
	@scripts/setup.sh test

setup-lint:  ## Install what `make lint` needs
	@scripts/setup.sh lint

setup-tidy:  ## Install what `make tidy` needs
	@scripts/setup.sh tidy
