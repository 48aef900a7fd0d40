include_guard(GLOBAL)

# The names of the suites in a file of tests. A case outside of them would not
# be run, and is an error.
function(suites_of file out)
  file(STRINGS ${file} lines REGEX "^BOOST_[A-Z]+_TEST_(SUITE|CASE)")
  set(suites)
  set(inside FALSE)
  foreach(line IN LISTS lines)
    if(line MATCHES "_TEST_SUITE_END")
      set(inside FALSE)
    elseif(line MATCHES "_TEST_SUITE\\(([a-z0-9_]+)")
      list(APPEND suites ${CMAKE_MATCH_1})
      set(inside TRUE)
    elseif(NOT inside)
      message(FATAL_ERROR "${file}: a case lies outside of any suite: ${line}")
    endif()
  endforeach()
  set(${out} ${suites} PARENT_SCOPE)
endfunction()

# Sets a test's time limit, in seconds, which is for programs that hang: a busy
# machine may need twenty times as long as an idle one. Sanitized programs get
# five times as long, because they are up to ten times as slow.
function(limit_time test seconds)
  if(VGPU_SANITIZE)
    math(EXPR seconds "5 * ${seconds}")
  endif()
  set_tests_properties(${test} PROPERTIES TIMEOUT ${seconds})
endfunction()

# Has a program read what another target has read already. All libraries are
# compiled as -fPIC, and a precompiled header fits no other code.
function(borrow_headers target from)
  target_compile_options(${target} PRIVATE -fPIC)
  target_precompile_headers(${target} REUSE_FROM ${from})
endfunction()

# vgpu_suites(TARGET NAME... LINK LIBRARY... [HEADERS_OF LIBRARY]): one program
# of Boost.Test suites, from the files NAME_test.cpp. Each file is a test of its
# own, whose name is its path below tests/unit with dots: actors.link.codec is
# tests/unit/actors/link/codec_test.cpp. Its cases lie in suites. With HEADERS_OF
# the program shares that library's precompiled header, otherwise that of all
# suites.
function(vgpu_suites target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADERS_OF" "LINK")
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests
    ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "^unit/" "" folder ${folder})
  add_executable(${target})
  target_link_libraries(${target} PRIVATE strict suite_main ${arg_LINK})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT arg_HEADERS_OF)
    set(arg_HEADERS_OF suite_headers)
  endif()
  borrow_headers(${target} ${arg_HEADERS_OF})
  foreach(name IN LISTS arg_UNPARSED_ARGUMENTS)
    set(file ${CMAKE_CURRENT_SOURCE_DIR}/${name}_test.cpp)
    target_sources(${target} PRIVATE ${file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    suites_of(${file} suites)
    list(TRANSFORM suites PREPEND "--run_test=")
    string(REPLACE "/" "." test ${folder}/${name})
    add_test(NAME ${test} COMMAND ${target} ${suites})
    limit_time(${test} 600)
  endforeach()
endfunction()
