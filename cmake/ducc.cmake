# mydev_fft_<instruction set>: Fourier transforms, of the sources of ducc0 that tools/setup.sh has fetched, or that
# -DMYDEV_DUCC_ROOT names. Without them JAX's transforms are evaluated, and nothing else is missing. The libraries are
# parts of the component for JAX: PyTorch has transforms of its own.
file(GLOB ducc_header CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/.venv/ducc0/src/ducc0/fft/fft.h)
set(ducc_root ${PROJECT_SOURCE_DIR}/.venv/ducc0)
if(MYDEV_DUCC_ROOT)
  set(ducc_root ${MYDEV_DUCC_ROOT})
  if(NOT EXISTS ${ducc_root}/src/ducc0/fft/fft.h)
    message(FATAL_ERROR "MYDEV_DUCC_ROOT='${MYDEV_DUCC_ROOT}' has no src/ducc0/fft/fft.h; it takes the directory of "
                        "ducc0's sources (requirements/ducc.txt has the version)")
  endif()
elseif(NOT ducc_header)
  message(STATUS "ducc0's sources are not there: JAX's Fourier transforms are evaluated, which is slow; "
                 "tools/setup.sh jax fetches them, or give -DMYDEV_DUCC_ROOT=<their directory>")
  return()
endif()
# Both of its licences stand at the top of the header; this project uses it under the first, of three clauses.
file(READ ${ducc_root}/src/ducc0/fft/fft.h ducc_license)
string(REGEX REPLACE "#ifndef.*" "" ducc_license "${ducc_license}")
file(WRITE ${PROJECT_BINARY_DIR}/LICENSE.ducc0 "${ducc_license}")
install(FILES ${PROJECT_BINARY_DIR}/LICENSE.ducc0 DESTINATION ${libraries} COMPONENT pjrt)

set(fft_isa_names ${isa_names})
list(TRANSFORM fft_isa_names REPLACE avx512 avx2)
list(REMOVE_DUPLICATES fft_isa_names)
foreach(isa ${fft_isa_names})
  set(target mydev_fft_${isa})
  add_library(${target} SHARED ${PROJECT_SOURCE_DIR}/csrc/host_kernels/fft/ducc_library/ducc_transform.cpp)
  # Not the directory's options: this code is the same in all builds, and no sanitizer looks at it.
  set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "" CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/fft_exports.map)
  target_compile_options(${target} PRIVATE -O2 -fno-math-errno -fno-trapping-math ${isa_flags_${isa}})
  target_include_directories(${target} SYSTEM PRIVATE ${ducc_root}/src)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/layers/host_kernels)
  target_link_libraries(${target} PRIVATE mydev_runtime)
  target_link_options(${target} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/fft_exports.map)
  install(TARGETS ${target} LIBRARY DESTINATION ${libraries} COMPONENT pjrt)
  add_dependencies(mydev_pjrt ${target})
endforeach()
