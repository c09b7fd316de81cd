# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0

# Settings that hold for every target: language level, warnings, output folders, sanitizers, ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

find_program(SPIN_CCACHE ccache)
if(SPIN_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${SPIN_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SPIN_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${SPIN_CCACHE})
endif()

# Warnings, the include root and the sanitizers of our own targets (never of generated code).
add_library(spin_settings INTERFACE)
target_include_directories(spin_settings INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
target_compile_options(spin_settings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -Wall -Wextra -Wshadow -Wno-unused-parameter -Wno-missing-field-initializers -Werror=return-type>)

if(SPIN_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${SPIN_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>
                      $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${SPIN_SANITIZE})
endif()

if(SPIN_CUDA)
  # sm_90 and sm_100 as machine code, PTX for what comes later.
  set(CMAKE_CUDA_ARCHITECTURES "90-real;100-real;90-virtual" CACHE STRING "CUDA architectures")
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no CUDA 20
  enable_language(CUDA)
  string(APPEND CMAKE_CUDA_FLAGS " --objdir-as-tempdir")  # else names of temporary files are in the objects, and no two are equal
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)
    string(APPEND CMAKE_CUDA_FLAGS " --compress-mode=size")  # a sixth of the size; drivers that run CUDA 13 can unpack it
  endif()
endif()
