# What `cmake --install` puts where. Components: "programs" to run, "development" to build other projects in C++,
# "c_library" that programs in C run with, "c_development" to build them.
#
# Headers of C++ lie under include/shmoe/ with their folders, and that folder is the include path which the targets bring:
# `#include "ops/ep/layout.hpp"` is spelt as in our sources, and ops/ and runtime/ of others are never in the way.
# C++20 comes with the targets. -ffp-contract=off does not: no header computes with floats, and how a project's own sums
# are rounded is its own choice; one that compares them with ours to the bit sets the flag, as examples/ does.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(SHMOE_INSTALL_HEADERS ${CMAKE_INSTALL_INCLUDEDIR}/shmoe)
set(SHMOE_INSTALL_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/shmoe)
set(SHMOE_INSTALL_EXAMPLES ${CMAKE_INSTALL_DOCDIR}/examples)

# All that an installation needs, and no tests: `cmake --build ... --target to_install`.
add_custom_target(to_install)

# Programs find their shared libraries where they were installed together.
if(BUILD_SHARED_LIBS)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  file(RELATIVE_PATH from_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/${from_bin_to_lib}")
endif()

# shmoe_install_library(shmoe_ops): the target shmoe::ops of other projects, with all headers of the folder that are not
# under detail/.
function(shmoe_install_library target)
  string(REPLACE shmoe_ "" name ${target})
  # No symbol of its own when it is shared: the precompiled headers are the same for all.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} DEFINE_SYMBOL ""
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  install(TARGETS ${target} EXPORT shmoe_cxx
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT programs NAMELINK_COMPONENT development
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  add_dependencies(to_install ${target})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/ DESTINATION ${SHMOE_INSTALL_HEADERS}/${folder} COMPONENT development
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN detail EXCLUDE)
endfunction()

# shmoe_install_c_library(shmoe_c): the target shmoe::c and `pkg-config shmoe-c` of other projects. Each such library is a
# component of find_package(shmoe) by itself: libshmoe.so needs nothing of what C++ and libshmoe.a need.
function(shmoe_install_c_library target)
  string(REPLACE shmoe_ "" name ${target})
  # Structs carry their size, so the programs of one major version run with any library of it.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  install(TARGETS ${target} EXPORT ${target}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT c_library NAMELINK_COMPONENT c_development
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT c_development)
  install(EXPORT ${target} NAMESPACE shmoe:: FILE ${target}.cmake DESTINATION ${SHMOE_INSTALL_CMAKE} COMPONENT c_development)
  string(REPLACE _ - module ${target})
  shmoe_install_pkgconfig(${module} c_development)
  add_dependencies(to_install ${target})
endfunction()

# shmoe_install_pkgconfig(shmoe-c development): of cmake/shmoe-c.pc.in, for `pkg-config shmoe-c`.
function(shmoe_install_pkgconfig module component)
  file(RELATIVE_PATH prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  set(file ${PROJECT_BINARY_DIR}/cmake_package/${module}.pc)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${module}.pc.in ${file} @ONLY)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${component})
endfunction()

# shmoe_install_programs(shmoe-bench ...)
function(shmoe_install_programs)
  install(TARGETS ${ARGN} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
  add_dependencies(to_install ${ARGN})
endfunction()

# At last, when all libraries are known: find_package(shmoe) and `pkg-config shmoe`.
function(shmoe_install_package)
  install(TARGETS shmoe_options EXPORT shmoe_cxx)
  install(EXPORT shmoe_cxx NAMESPACE shmoe:: DESTINATION ${SHMOE_INSTALL_CMAKE} COMPONENT development)
  set(folder ${PROJECT_BINARY_DIR}/cmake_package)
  configure_package_config_file(cmake/shmoeConfig.cmake.in ${folder}/shmoeConfig.cmake
    INSTALL_DESTINATION ${SHMOE_INSTALL_CMAKE})
  write_basic_package_version_file(${folder}/shmoeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${folder}/shmoeConfig.cmake ${folder}/shmoeConfigVersion.cmake
    DESTINATION ${SHMOE_INSTALL_CMAKE} COMPONENT c_development)

  # What the libraries themselves use is linked by whoever links static ones.
  set(within "spdlog libhwy hwloc tbb")
  set(requires "Requires: fmt ${within}")
  if(BUILD_SHARED_LIBS)
    set(requires "Requires: fmt\nRequires.private: ${within}")
  endif()
  shmoe_install_pkgconfig(shmoe development)
endfunction()
