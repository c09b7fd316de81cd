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
	$(call build,release,build,spind spinctl spin_client spin_kernels_c)
	@cmake --install build --prefix $(PREFIX)

##@ Test
.PHONY: all test test-unit test-e2e test-replays bench bundle

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

bundle: all  ## Pack programs, GPU tests and benchmarks for a GPU machine without libraries (docs/gpu.md)
	@scripts/bundle.sh build build/spin-bundle.tar.gz

##@ Operations
.PHONY: image test-ops test-monitoring test-dashboard test-helm test-status-page test-kube kube-up kube-down dashboard chart-docs

ops_pytest = .deps/ops/bin/python -m pytest -c tests/ops.toml
IMAGE ?= localhost/spin:0.1.0
# A base image where no registry is in reach: deploy/image/base.sh makes it of Debian packages.
BASE ?= localhost/debian:12

image: setup-image  ## Build the image IMAGE with buildah (ten minutes; CUDA=off: without the CUDA device and its toolkit)
	@buildah inspect $(BASE) >/dev/null 2>&1 || deploy/image/base.sh $(BASE)
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) && buildah bud --isolation chroot --timestamp $$SOURCE_DATE_EPOCH \
	  --build-arg BASE=$(BASE) --build-arg CUDA=$(patsubst auto,on,$(CUDA)) --build-arg JOBS=$(JOBS) --build-arg REVISION=$$(git rev-parse HEAD) \
	  --build-arg SOURCE_DATE_EPOCH=$$SOURCE_DATE_EPOCH -f deploy/Dockerfile -t $(IMAGE) .

test-ops: test-monitoring test-dashboard test-helm  ## Check rules, dashboard and chart; needs neither cluster nor browser

test-monitoring: setup-ops  ## Check the Prometheus rules: promtool, its rule tests, runbooks
	@$(ops_pytest) tests/monitoring

test-dashboard: setup-ops  ## Check the dashboard with its linter
	@$(ops_pytest) tests/dashboard

test-helm: setup-helm  ## Check the chart: unit tests, Helm 3 and 4, strict schemas, values
	@$(ops_pytest) tests/helm

test-status-page: setup-browser all  ## Check the status page of spind and the report of spinctl eval in a real browser
	@$(ops_pytest) tests/browser

test-kube: setup-kube  ## Try image and chart on a real Kubernetes on this machine (root; builds it once)
	@buildah inspect $(IMAGE) >/dev/null 2>&1 || $(MAKE) image
	@$(ops_pytest) tests/kube

kube-up: setup-kube  ## Start a Kubernetes on this machine that stays up, to try the chart on (root)
	@buildah inspect $(IMAGE) >/dev/null 2>&1 || $(MAKE) image
	@.deps/ops/bin/python tests/kube/trial.py up

kube-down:  ## End it
	@.deps/ops/bin/python tests/kube/trial.py down

dashboard: setup-browser all  ## Draw the dashboard under a scenario with faults, into docs/images (six minutes)
	@cd tests/dashboard/renderer && npm ci --legacy-peer-deps --ignore-scripts --no-fund --no-audit --silent && npm run --silent build >/dev/null
	@.deps/ops/bin/python tests/dashboard/render.py docs/images

chart-docs: setup-helm  ## Regenerate dashboard, the chart's copies, and its README
	@python3 deploy/monitoring/dashboard/generate.py deploy/monitoring/spin-dashboard.json
	@cp deploy/monitoring/spin.rules.yaml deploy/monitoring/spin-dashboard.json helm/spin/files/
	@$(KUBE_TOOLS)/helm-docs --chart-search-root helm/spin --sort-values-order file >/dev/null 2>&1

KUBE_TOOLS = $(or $(SPIN_KUBE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/spin-kube)/tools

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
.PHONY: help clean distclean setup-build setup-test setup-lint setup-tidy setup-ops setup-helm setup-kube \
        setup-browser setup-image

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

setup-ops:  ## Install what the tests of rules and dashboard need
	@scripts/setup.sh ops

setup-helm: setup-ops  ## Install what the tests of the chart need
	@tests/kube/cluster/tools.sh chart

setup-image:  ## Install what building the image needs
	@scripts/setup.sh image

setup-kube: setup-ops setup-image  ## Install what the cluster needs (ten minutes, once)
	@scripts/setup.sh kube
	@tests/kube/cluster/tools.sh cluster

setup-browser: setup-ops  ## Install what the tests of the status page and `make dashboard` need
	@scripts/setup.sh browser

setup-tidy:  ## Install what `make tidy` needs
	@scripts/setup.sh tidy
