# The program in C, built against an installed shmoe:  cmake -S . -B build && cmake --build build
# then  shmoe run -n 2 -- build/c_api
cmake_minimum_required(VERSION 3.25)
project(c_api LANGUAGES C)
find_package(shmoe REQUIRED COMPONENTS c)
add_executable(c_api main.c)
target_link_libraries(c_api PRIVATE shmoe::c)
