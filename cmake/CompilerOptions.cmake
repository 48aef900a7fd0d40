# How all of our code is compiled.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # What ccache needs to cache compilations that read a precompiled header
  # (ccache(1), "PRECOMPILED HEADERS"). A precompiled header knows its sources
  # by all of their bytes, comments too, which a comparison of preprocessed text
  # would miss: so ccache goes by the files that the compiler says it read.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

option(VGPU_WERROR "Warnings are errors" ON)
set(VGPU_SANITIZE "" CACHE STRING
  "Sanitizers to compile with: empty, address;undefined, or thread")

# Line tables are enough for a backtrace and halve the time to compile; to look
# at variables in a debugger, set CMAKE_CXX_FLAGS_DEBUG to "-Og -g".
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
if(VGPU_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
# Compiles fastest: -O0 writes more code than it saves time. CMake has set this
# variable already, so only its own value gives way.
if(CMAKE_CXX_FLAGS_DEBUG STREQUAL "-g")
  set(CMAKE_CXX_FLAGS_DEBUG "-Og -g1")
endif()
# For what runs rarely: -O2 takes GCC a third more time or more. Releases take it.
set(VGPU_RARELY_RUN $<$<NOT:$<CONFIG:Release>>:-Og>)

# Most of what a file costs is what it includes and instantiates; files that are
# compiled together pay it once. Editors and clang-tidy want every file's own
# command: -DVGPU_UNITY=OFF.
option(VGPU_UNITY "Compile several files of a target at once" ON)
set(CMAKE_UNITY_BUILD ${VGPU_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6)
# With room, GCC need not look for garbage all the time.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(--param=ggc-min-heapsize=524288)
endif()

add_library(strict INTERFACE)
target_compile_options(strict INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wold-style-cast
  -Wnon-virtual-dtor -Woverloaded-virtual
  $<$<BOOL:${VGPU_WERROR}>:-Werror>)

foreach(sanitizer IN LISTS VGPU_SANITIZE)
  add_compile_options(-fsanitize=${sanitizer} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${sanitizer})
endforeach()
if("undefined" IN_LIST VGPU_SANITIZE)
  # CAF's detail/init_fun_factory.hpp binds a reference to null when a function
  # is spawned; nothing of ours is excused by this.
  add_compile_options(-fno-sanitize=null -fno-sanitize-recover=undefined)
endif()

# Where clangd looks for them. git ignores the link.
option(VGPU_LINK_COMMANDS "Link compile_commands.json at the root" OFF)
if(VGPU_LINK_COMMANDS)
  file(CREATE_LINK ${CMAKE_BINARY_DIR}/compile_commands.json
    ${PROJECT_SOURCE_DIR}/compile_commands.json SYMBOLIC)
endif()
