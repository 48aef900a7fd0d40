# cuda_program(TARGET SOURCE...) compiles .cu files as a user would, with nvcc,
# its default options and the static cudart. The program is named after the
# first source and lies in the current binary directory. Further options are in
# the first source, in a line
#   // nvcc: OPTION...
# which the native runner of tests/truth reads as well. In a sanitizer build the
# target is not part of `all`, because sanitizers check our own processes. With
# GROUP the target is never part of `all`, but of the target GROUP, which the
# tests that need it build.
function(cuda_program target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "GROUP" "")
  set(sources ${arg_UNPARSED_ARGUMENTS})
  list(GET sources 0 main)
  cmake_path(GET main STEM name)
  set(program ${CMAKE_CURRENT_BINARY_DIR}/${name})

  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${main})
  file(STRINGS ${main} options REGEX "^// nvcc: " LIMIT_COUNT 1)
  string(REGEX REPLACE "^// nvcc: " "" options "${options}")
  separate_arguments(options UNIX_COMMAND "${options}")
  # Only the last step takes libraries.
  set(compile_options ${options})
  list(FILTER compile_options EXCLUDE REGEX "^-l")

  set(headers ${PROJECT_SOURCE_DIR}/examples/example.hpp
    ${PROJECT_SOURCE_DIR}/tests/cuda/check.hpp
    ${PROJECT_SOURCE_DIR}/tests/cuda/gate.hpp
    ${PROJECT_SOURCE_DIR}/tests/cuda/sharing/two_processes.hpp
    ${PROJECT_SOURCE_DIR}/tests/libraries/checked.hpp)
  set(objects)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM stem)
    cmake_path(ABSOLUTE_PATH source)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.${stem}.o)
    list(APPEND objects ${object})
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CCACHE_PROGRAM} ${NVCC} ${compile_options} -c -o ${object}
        ${source}
      DEPENDS ${source} ${headers}
      COMMENT "nvcc ${name}" VERBATIM)
  endforeach()
  add_custom_command(
    OUTPUT ${program}
    COMMAND ${NVCC} ${options} -o ${program} ${objects}
    DEPENDS ${objects}
    COMMENT "Linking ${name}" VERBATIM)
  if(arg_GROUP)
    add_custom_target(${target} DEPENDS ${program})
    if(NOT TARGET ${arg_GROUP})
      add_custom_target(${arg_GROUP})
    endif()
    add_dependencies(${arg_GROUP} ${target})
  elseif(VGPU_SANITIZE)
    add_custom_target(${target} DEPENDS ${program})
  else()
    add_custom_target(${target} ALL DEPENDS ${program})
  endif()
  set_target_properties(${target} PROPERTIES PROGRAM ${program})
endfunction()
