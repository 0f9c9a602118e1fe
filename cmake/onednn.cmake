# mydev_onednn: oneDNN from PyPI's onednn-devel-cpu-gomp (headers and library lie in the Python prefix), or from anywhere
# else that -DMYDEV_ONEDNN_ROOT names. The library is installed beside ours, so that nothing has to be found later.
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND ${Python_EXECUTABLE} -c "import sys; print(sys.prefix)" OUTPUT_VARIABLE python_prefix
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(MYDEV_ONEDNN_ROOT "${python_prefix}" CACHE PATH "Prefix that holds include/dnnl.hpp and lib/libdnnl.so.3")
find_path(MYDEV_ONEDNN_INCLUDE dnnl.hpp PATHS ${MYDEV_ONEDNN_ROOT}/include NO_DEFAULT_PATH REQUIRED)
find_library(MYDEV_ONEDNN_LIBRARY NAMES libdnnl.so.3 PATHS ${MYDEV_ONEDNN_ROOT}/lib NO_DEFAULT_PATH REQUIRED)
add_library(mydev_onednn SHARED IMPORTED)
set_target_properties(mydev_onednn PROPERTIES IMPORTED_LOCATION ${MYDEV_ONEDNN_LIBRARY}
                      INTERFACE_INCLUDE_DIRECTORIES ${MYDEV_ONEDNN_INCLUDE})
file(REAL_PATH ${MYDEV_ONEDNN_LIBRARY} onednn_file)
install(FILES ${onednn_file} DESTINATION lib RENAME libdnnl.so.3)
