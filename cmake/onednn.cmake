# mydev_onednn: oneDNN from the Python packages onednn-cpu-gomp and onednn-devel-cpu-gomp, or from anywhere else that
# -DMYDEV_ONEDNN_ROOT names. The library is installed beside ours, so that nothing has to be found later.
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
if(NOT MYDEV_ONEDNN_ROOT)
  # The packages' files lie in include/ and lib/ of the prefix that pip installed into.
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "from importlib.metadata import files; print(next(f.locate().resolve().parent.parent for f in files('onednn-devel-cpu-gomp') if f.name == 'dnnl.hpp'))"
    RESULT_VARIABLE onednn_result OUTPUT_VARIABLE onednn_root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT onednn_result EQUAL 0)
    message(FATAL_ERROR "oneDNN is not there: pip install onednn-cpu-gomp onednn-devel-cpu-gomp (requirements/build.txt "
                        "has the versions), or give -DMYDEV_ONEDNN_ROOT=<prefix with include/dnnl.hpp, lib/libdnnl.so.3>")
  endif()
else()
  set(onednn_root ${MYDEV_ONEDNN_ROOT})
endif()
find_path(onednn_include dnnl.hpp PATHS ${onednn_root}/include NO_DEFAULT_PATH NO_CACHE REQUIRED)
find_library(onednn_library NAMES libdnnl.so.3 PATHS ${onednn_root}/lib NO_DEFAULT_PATH NO_CACHE REQUIRED)
add_library(mydev_onednn SHARED IMPORTED)
set_target_properties(mydev_onednn PROPERTIES IMPORTED_LOCATION ${onednn_library}
                      INTERFACE_INCLUDE_DIRECTORIES ${onednn_include})
file(REAL_PATH ${onednn_library} onednn_file)
install(FILES ${onednn_file} DESTINATION ${libraries} RENAME libdnnl.so.3)
# The OpenMP runtime that oneDNN and the host's kernels need, for systems without it. torch brings one of the same name: a
# process has that which is loaded first, and one pool of threads.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.so.1 OUTPUT_VARIABLE openmp_runtime
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH ${openmp_runtime} openmp_file)
  install(FILES ${openmp_file} DESTINATION ${libraries} RENAME libgomp.so.1)
endif()
