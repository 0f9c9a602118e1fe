# find_package(mydev): what drivers and kernels are built with, from the installed package.
#
#   mydev::headers   the public C headers, for C11 and C++: mydev/driver.h, mydev/custom_call.h
#   mydev::xla_ffi   these, and the library that has XLA_FFI_GetApi, for typed-FFI handlers that register themselves
#
# `mydev cmake` prints the directory of this file, which is mydev_DIR. The files are found from here, wherever that is.
get_filename_component(_mydev_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET mydev::headers)
  add_library(mydev::headers INTERFACE IMPORTED)
  set_target_properties(mydev::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_mydev_root}/include")
  add_library(mydev::xla_ffi SHARED IMPORTED)
  set_target_properties(mydev::xla_ffi PROPERTIES IMPORTED_LOCATION "${_mydev_root}/lib/libmydev_xla_ffi.so"
                        INTERFACE_LINK_LIBRARIES mydev::headers)
endif()
unset(_mydev_root)
