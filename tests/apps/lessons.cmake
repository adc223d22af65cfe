# Tests of the lessons. Each run goes under mpirun and under `shmoe run`.

find_program(SHMOE_MPIRUN mpirun)

# shmoe_lesson(02_ring RANKS 4 [ARGS --break] [VARIANT broken] [EXPECTED broken.txt | -] [FAILS regex] [ENV NAME=VALUE ...])
# The program prints apps/02_ring/EXPECTED (expected.txt). With FAILS it ends with an error line that matches the regex.
function(shmoe_lesson lesson)
  cmake_parse_arguments(ARG "" "RANKS;VARIANT;EXPECTED;FAILS" "ARGS;ENV" ${ARGN})
  if(NOT ARG_EXPECTED)
    set(ARG_EXPECTED expected.txt)
  endif()
  if(NOT ARG_EXPECTED STREQUAL "-")
    set(ARG_EXPECTED ${PROJECT_SOURCE_DIR}/apps/${lesson}/${ARG_EXPECTED})
  endif()
  set(name lesson_${lesson})
  if(ARG_VARIANT)
    string(APPEND name _${ARG_VARIANT})
  endif()
  set(environment ${ARG_ENV})
  if(ARG_FAILS)
    list(APPEND environment "LESSON_FAILS=${ARG_FAILS}")
  endif()
  set(launchers procs=${CMAKE_BINARY_DIR}/apps/shmoe/shmoe)
  if(SHMOE_MPIRUN)
    list(APPEND launchers mpi=${SHMOE_MPIRUN})
  endif()
  foreach(entry IN LISTS launchers)
    string(REPLACE "=" ";" entry "${entry}")
    list(GET entry 0 label)
    list(GET entry 1 launcher)
    add_test(NAME ${name}_${label} COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/lesson_test.sh
      ${launcher} $<TARGET_FILE:${lesson}> ${ARG_RANKS} ${ARG_EXPECTED} ${ARG_ARGS})
    set_tests_properties(${name}_${label} PROPERTIES LABELS "apps;${label}" TIMEOUT 60 ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# shmoe_lesson_refused(01_notify_wait VARIANT name CHANGE sed-command SAYS text)
# The compiler refuses the lesson's main.cpp after the change.
function(shmoe_lesson_refused lesson)
  cmake_parse_arguments(ARG "" "VARIANT;CHANGE;SAYS" "" ${ARGN})
  add_test(NAME lesson_${lesson}_${ARG_VARIANT} COMMAND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/lesson_compile_fails.sh
    ${PROJECT_SOURCE_DIR}/apps/${lesson}/main.cpp ${ARG_CHANGE} ${ARG_SAYS}
    ${CMAKE_CXX_COMPILER} -std=c++20 -Wall -Werror -I${PROJECT_SOURCE_DIR})
  set_tests_properties(lesson_${lesson}_${ARG_VARIANT} PROPERTIES LABELS "apps" TIMEOUT 60)
endfunction()

add_test(NAME lesson_outputs COMMAND ${CMAKE_CURRENT_LIST_DIR}/lesson_outputs.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(lesson_outputs PROPERTIES LABELS "apps" TIMEOUT 60)
