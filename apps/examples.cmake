# The lessons, built against an installed shmoe:  cmake -S . -B build && cmake --build build
# then  shmoe run -n 2 -- build/01_notify_wait
cmake_minimum_required(VERSION 3.25)
project(shmoe_examples LANGUAGES CXX)
find_package(shmoe REQUIRED)

# Some lessons compare sums to the bit.
add_compile_options(-ffp-contract=off)
file(GLOB lessons RELATIVE ${CMAKE_SOURCE_DIR}/apps apps/[0-9]*)
foreach(lesson IN LISTS lessons)
  add_executable(${lesson} apps/${lesson}/main.cpp)
  target_include_directories(${lesson} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${lesson} PRIVATE shmoe::ops shmoe::checks)
endforeach()
