# find_package(torch_mydev): what extensions of the backend in C++ are built with, from the installed package
# (docs/extending.md).
#
#   torch_mydev::torch_mydev   headers and libraries of the backend, of mydev and of torch
#
# `torch_mydev.cmake_dir()` is torch_mydev_DIR. The files are found from here; torch is that of the Python interpreter.
get_filename_component(_torch_mydev_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
get_filename_component(_mydev_root "${_torch_mydev_root}/../mydev" ABSOLUTE)
if(NOT TARGET torch_mydev::torch_mydev)
  find_package(Python REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import runpy, sys; runpy.run_path(sys.argv[1])['main']()"
            ${_torch_mydev_root}/_torch_version.py
    OUTPUT_VARIABLE _torch ERROR_VARIABLE _torch_problem OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REGEX REPLACE "\n.*" "" _torch_root "${_torch}")
  string(REGEX MATCH "\n([0-9]+\\.[0-9]+)" _torch_version "${_torch}")
  file(GLOB _torch_mydev_library "${_torch_mydev_root}/lib/torch-${CMAKE_MATCH_1}/libtorch_mydev.so.*")
  file(GLOB _mydev_libraries "${_mydev_root}/lib/libmydev_runtime.so.*" "${_mydev_root}/lib/libmydev_kernels.so.*"
       "${_mydev_root}/lib/libmydev_program.so.*")
  if(NOT _torch_mydev_library)
    set(torch_mydev_FOUND FALSE)
    set(torch_mydev_NOT_FOUND_MESSAGE "torch_mydev has no libraries for the torch of ${Python_EXECUTABLE}: \
'${_torch}' ${_torch_problem}")
    return()
  endif()
  add_library(torch_mydev::torch_mydev SHARED IMPORTED)
  set_target_properties(
    torch_mydev::torch_mydev
    PROPERTIES
      IMPORTED_LOCATION "${_torch_mydev_library}"
      INTERFACE_COMPILE_FEATURES cxx_std_20
      INTERFACE_INCLUDE_DIRECTORIES
      "${_torch_mydev_root}/include;${_mydev_root}/include;${_torch_root}/include;${_torch_root}/include/torch/csrc/api/include"
      INTERFACE_LINK_LIBRARIES
      "${_mydev_libraries};${_torch_root}/lib/libtorch.so;${_torch_root}/lib/libtorch_cpu.so;${_torch_root}/lib/libc10.so")
endif()
