# cuda_program(TARGET SOURCE...) compiles .cu files as their readers would:
# plain nvcc, its default options, the static cudart. The program is named
# after the first source and lies in the current binary directory. What a
# program needs beyond that stands in its first source, in a line
#   // nvcc: OPTION...
# which the native runner of tests/truth reads as well. The target is not part
# of `all` in a sanitizer build: sanitizers are about our own processes. With
# GROUP it is no part of `all` anywhere, but of that target, which tests build
# that need it.
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
  # Libraries belong to the last step alone.
  set(compile_options ${options})
  list(FILTER compile_options EXCLUDE REGEX "^-l")

  set(headers ${PROJECT_SOURCE_DIR}/examples/example.hpp
    ${PROJECT_SOURCE_DIR}/tests/cuda/check.hpp
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
