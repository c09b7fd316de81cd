# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0

# Every third-party library of the build, in one place. docs/dependencies.md says why each is here.
find_package(Threads REQUIRED)
find_package(absl REQUIRED CONFIG)
find_package(Protobuf REQUIRED)  # module mode: Debian ships no protobuf-config.cmake
find_package(gRPC REQUIRED CONFIG)
find_package(civetweb REQUIRED CONFIG)
find_package(prometheus-cpp REQUIRED CONFIG)
find_package(spdlog REQUIRED CONFIG)
find_package(CLI11 REQUIRED CONFIG)

# Header-only libraries without CMake files of their own in Debian.
find_path(SPIN_RANDOM123_INCLUDE Random123/philox.h REQUIRED)
add_library(spin_random123 INTERFACE)
target_include_directories(spin_random123 SYSTEM INTERFACE $<BUILD_INTERFACE:${SPIN_RANDOM123_INCLUDE}>)
find_path(SPIN_XXHASH_INCLUDE xxhash.h REQUIRED)
add_library(spin_xxhash INTERFACE)
target_include_directories(spin_xxhash SYSTEM INTERFACE $<BUILD_INTERFACE:${SPIN_XXHASH_INCLUDE}>)
find_path(SPIN_NLOHMANN_INCLUDE nlohmann/json.hpp REQUIRED)
add_library(spin_json INTERFACE)
target_include_directories(spin_json SYSTEM INTERFACE $<BUILD_INTERFACE:${SPIN_NLOHMANN_INCLUDE}>)

if(SPIN_CUDA)
  find_package(CUDAToolkit 13.0 REQUIRED)
endif()
if(SPIN_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
if(SPIN_BENCH)
  find_package(benchmark REQUIRED CONFIG)
endif()
