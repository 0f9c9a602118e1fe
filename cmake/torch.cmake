# mydev_torch and mydev_torch_python: libtorch and pybind11 from the installed wheel of torch. Its own CMake package is not
# used: it drags in compilers and libraries that a CPU extension does not need. torch's copy of pybind11 is, since types
# cross between torch's bindings and ours only where both have the same pybind11.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import runpy, sys; runpy.run_path(sys.argv[1])['main']()"
          ${PROJECT_SOURCE_DIR}/torch_mydev/_torch_version.py
  RESULT_VARIABLE torch_result OUTPUT_VARIABLE torch_info ERROR_VARIABLE torch_problem
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(NOT torch_result EQUAL 0)
  message(FATAL_ERROR "${torch_problem}")
endif()
string(REPLACE "\n" ";" torch_info "${torch_info}")
list(GET torch_info 0 torch_root)
list(GET torch_info 1 torch_version)
message(STATUS "torch ${torch_version} at ${torch_root}")

add_library(mydev_torch INTERFACE)
target_include_directories(mydev_torch SYSTEM INTERFACE ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
target_link_directories(mydev_torch INTERFACE ${torch_root}/lib)
target_link_libraries(mydev_torch INTERFACE torch_cpu torch c10)
# The dispatch stubs of an x86-64 wheel hold a pointer per CPU capability; the macros must match the wheel's build.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_definitions(mydev_torch INTERFACE HAVE_AVX2_CPU_DEFINITION HAVE_AVX512_CPU_DEFINITION)
endif()
# A precompiled header of torch is all heap to the compiler's garbage collector: let it collect less often.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(mydev_torch INTERFACE "SHELL:--param ggc-min-expand=1000"
                                               "SHELL:--param ggc-min-heapsize=1500000")
endif()
# Kineto, with its headers in the wheel, is what torch.profiler collects rows of devices with. It is optional in torch.
set(kineto_source ${PROJECT_SOURCE_DIR}/csrc/aten/trace/kineto_profiler.cpp)
if(EXISTS ${torch_root}/include/kineto/libkineto.h AND
   EXISTS ${torch_root}/include/torch/csrc/profiler/standalone/privateuse1_profiler.h)
  set_source_files_properties(${kineto_source} PROPERTIES COMPILE_DEFINITIONS "USE_KINETO;FMT_HEADER_ONLY"
                              COMPILE_OPTIONS "-isystem;${torch_root}/include/kineto" SKIP_PRECOMPILE_HEADERS ON)
else()
  message(STATUS "torch ${torch_version} has no Kineto: torch.profiler will show no rows of the device")
  set_source_files_properties(${kineto_source} PROPERTIES HEADER_FILE_ONLY ON)
endif()
add_library(mydev_torch_python INTERFACE)
target_link_libraries(mydev_torch_python INTERFACE mydev_torch torch_python)
