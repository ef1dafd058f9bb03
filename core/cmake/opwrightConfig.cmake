# find_package(opwright): the headers for plugins, which link nothing of opwright; and the library
# that runs bundles, where it lies beside them.
#
#   opwright::headers            the include folder and C++17
#   opwright_add_plugin(name sources...)   a library that the host can load
#   opwright::run                libopwright with opwright/run.h, in what libopwright installs
#
# Where CMake does not look by itself: -Dopwright_DIR="$(python -c
# 'import opwright; print(opwright.get_include())')/../share/cmake/opwright".
if(TARGET opwright::headers)
  return()
endif()

# In an installed package this file lies in share/cmake/opwright or lib/cmake/opwright, in the sources
# in cmake.
foreach(folder IN ITEMS ../../../include ../include)
  get_filename_component(opwright_INCLUDE_DIR "${CMAKE_CURRENT_LIST_DIR}/${folder}" ABSOLUTE)
  if(EXISTS "${opwright_INCLUDE_DIR}/opwright/abi.h")
    break()
  endif()
  unset(opwright_INCLUDE_DIR)
endforeach()
if(NOT DEFINED opwright_INCLUDE_DIR)
  set(opwright_FOUND FALSE)
  set(opwright_NOT_FOUND_MESSAGE "no opwright/abi.h near ${CMAKE_CURRENT_LIST_DIR}")
  return()
endif()

add_library(opwright::headers INTERFACE IMPORTED)
target_include_directories(opwright::headers INTERFACE "${opwright_INCLUDE_DIR}")
target_compile_features(opwright::headers INTERFACE cxx_std_17)

get_filename_component(opwright_LIBRARY "${opwright_INCLUDE_DIR}/../lib/libopwright.so.1" ABSOLUTE)
if(EXISTS "${opwright_LIBRARY}")
  add_library(opwright::run SHARED IMPORTED)
  set_target_properties(opwright::run PROPERTIES
    IMPORTED_LOCATION "${opwright_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${opwright_INCLUDE_DIR}")
endif()

# The file is called <name>.so; of its own symbols it exports opwright_plugin_v1 only.
function(opwright_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE opwright::headers)
  set_target_properties(${name} PROPERTIES
    PREFIX ""
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  if(SKBUILD_PROJECT_VERSION_FULL)
    target_compile_definitions(${name}
      PRIVATE OPWRIGHT_PLUGIN_VERSION="${SKBUILD_PROJECT_VERSION_FULL}")
  endif()
endfunction()
