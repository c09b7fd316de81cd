# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0

# The test install_consumer: installs the build in SPIN_BINARY_DIR under SPIN_WORK_DIR, builds the project in
# SPIN_CONSUMER_DIR against that alone, and runs the result. SPIN_CONFIGURE_ARGUMENTS go to its configure step.
set(prefix ${SPIN_WORK_DIR}/prefix)
set(build ${SPIN_WORK_DIR}/build)
file(REMOVE_RECURSE ${SPIN_WORK_DIR})

macro(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endmacro()

run(${CMAKE_COMMAND} --install ${SPIN_BINARY_DIR} --prefix ${prefix})
run(${prefix}/bin/spind --help)
run(${prefix}/bin/spinctl --help)
run(${CMAKE_COMMAND} -S ${SPIN_CONSUMER_DIR} -B ${build} -G Ninja -DCMAKE_PREFIX_PATH=${prefix}
    ${SPIN_CONFIGURE_ARGUMENTS})
run(${CMAKE_COMMAND} --build ${build})
run(${build}/consumer)
run(${build}/c_consumer)
