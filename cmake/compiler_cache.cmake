# ccache, where the machine has it and nobody chose another launcher. tools/compiler_cache.sh runs it such that clones in
# different directories find each other's objects; the objects are the same with it and without.
find_program(MYDEV_CCACHE ccache)
set(compiler_cache ${PROJECT_SOURCE_DIR}/tools/compiler_cache.sh)
if(MYDEV_CCACHE AND EXISTS ${compiler_cache} AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_C_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${compiler_cache})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${compiler_cache})
  # Without it ccache leaves GCC's users of a precompiled header alone.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()
