# mydev_unity(<target> <size>): compiles up to <size> files of a folder as one unit, since most of what a file takes to
# compile are the headers and the templates that its neighbours need too. So names in anonymous namespaces are unique in
# their folder. -DMYDEV_UNITY=OFF keeps one unit a file: for lint, and for work on one file.
function(mydev_unity target size)
  if(NOT MYDEV_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/csrc ${folder})
    string(REPLACE "/" "_" name ${name})
    if(NOT DEFINED count_${name})
      set(count_${name} 0)
    endif()
    math(EXPR part "${count_${name}} / ${size}")
    math(EXPR count_${name} "${count_${name}} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${part})
  endforeach()
  # The generated files name the sources from the project's root, so that a compiler cache finds them from any checkout.
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP UNITY_BUILD_RELOCATABLE ON)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()
