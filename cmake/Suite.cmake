include_guard(GLOBAL)

# A Boost.Test suite of one file: FOLDER/NAME_test.cpp, run as FOLDER.NAME.
function(vgpu_suite name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(target ${folder}_${name}_test)
  add_executable(${target} ${name}_test.cpp)
  target_compile_definitions(${target} PRIVATE BOOST_TEST_DYN_LINK)
  # A suite is compiled far more often than it is run.
  target_compile_options(${target} PRIVATE -O1)
  target_link_libraries(${target} PRIVATE strict ${arg_LINK}
    Boost::unit_test_framework)
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${folder}.${name} COMMAND ${target})
  set_tests_properties(${folder}.${name} PROPERTIES TIMEOUT 120)
endfunction()
