# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0

# What `cmake --install` lays out: the programs, the client library with its public headers, and a CMake
# package that gives a consumer spin::client, and spin::kernels_c for the C ABI (tests/install is one).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/spin)

install(TARGETS spind spinctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/client/cpp/include/spin ${PROJECT_SOURCE_DIR}/client/c/include/spin
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")

# The client and the static libraries that it links. Of these, only spin::client is for consumers. The targets of the
# second list hold build settings and paths of this tree; installed, they are empty names that the first list
# links to.
set(libraries spin_client spin_proto spin_dataplane spin_kernels)
set(names spin_settings spin_random123 spin_xxhash spin_json)
foreach(target IN LISTS libraries names)
  string(REGEX REPLACE "^spin_" "" export_name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${export_name})
endforeach()
install(TARGETS ${libraries} EXPORT spinTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS ${names} EXPORT spinTargets)
set_target_properties(spin_kernels_c PROPERTIES EXPORT_NAME kernels_c)
install(TARGETS spin_kernels_c EXPORT spinTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT spinTargets NAMESPACE spin:: DESTINATION ${package_dir})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/spinConfig.cmake.in
  ${PROJECT_BINARY_DIR}/spinConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/spinConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/spinConfig.cmake ${PROJECT_BINARY_DIR}/spinConfigVersion.cmake
        DESTINATION ${package_dir})
