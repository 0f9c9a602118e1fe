# mydev_torch and mydev_torch_python: libtorch from the installed wheel. Its own CMake package is not used: it drags in
# compilers and libraries that a CPU extension does not need.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c
          "import os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\nimport torch; print(torch.__path__[0]); print(torch.__version__)"
  OUTPUT_VARIABLE torch_info OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" torch_info "${torch_info}")
list(GET torch_info 0 torch_root)
list(GET torch_info 1 torch_version)
if(NOT torch_version MATCHES "^2\\.13\\.")
  message(FATAL_ERROR "torch ${torch_version} is installed; this version of torch_mydev builds against torch 2.13")
endif()
message(STATUS "torch ${torch_version} at ${torch_root}")

add_library(mydev_torch INTERFACE)
target_include_directories(mydev_torch SYSTEM INTERFACE ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
target_link_directories(mydev_torch INTERFACE ${torch_root}/lib)
target_link_libraries(mydev_torch INTERFACE torch_cpu torch c10)
# The dispatch stubs of an x86-64 wheel hold a pointer per CPU capability; the macros must match the wheel's build.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_definitions(mydev_torch INTERFACE HAVE_AVX2_CPU_DEFINITION HAVE_AVX512_CPU_DEFINITION)
endif()
add_library(mydev_torch_python INTERFACE)
target_link_libraries(mydev_torch_python INTERFACE mydev_torch torch_python)
