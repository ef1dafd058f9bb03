# Target opwright_cpu_dnnl: oneDNN's headers and library, version 3.
#
# First the packages onednn-devel-cpu-gomp and onednn-cpu-gomp of the Python that builds (in pip's
# isolated build their files lie in the environment's own prefix), then a library of the system.
find_package(Python COMPONENTS Interpreter REQUIRED)

# Sets `variable` to the full path of a file of an installed distribution, or to an empty string.
function(opwright_cpu_find_file variable distribution path)
  set(script "
import importlib.metadata
try:
    files = importlib.metadata.files('${distribution}') or ()
except importlib.metadata.PackageNotFoundError:
    files = ()
found = [file.locate().resolve() for file in files if str(file).endswith('${path}')]
print(found[0] if found and found[0].exists() else '')
")
  execute_process(COMMAND "${Python_EXECUTABLE}" -c "${script}"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

opwright_cpu_find_file(header onednn-devel-cpu-gomp include/oneapi/dnnl/dnnl.hpp)
opwright_cpu_find_file(library onednn-cpu-gomp libdnnl.so.3)
if(header AND library)
  get_filename_component(folder "${header}/../../.." ABSOLUTE)
  add_library(opwright_cpu_dnnl UNKNOWN IMPORTED)
  set_target_properties(opwright_cpu_dnnl PROPERTIES
    IMPORTED_LOCATION "${library}"
    INTERFACE_INCLUDE_DIRECTORIES "${folder}")
  message(STATUS "oneDNN of the Python packages: ${library}")
  return()
endif()

find_package(dnnl 3 CONFIG QUIET)
if(NOT dnnl_FOUND)
  message(FATAL_ERROR
    "opwright-cpu: oneDNN of version 3 must be there, got none; install onednn-devel-cpu-gomp and "
    "onednn-cpu-gomp for ${Python_EXECUTABLE}, or a library of the system that CMake finds "
    "(-Ddnnl_DIR=...), or build without its kernels (-DOPWRIGHT_CPU_ONEDNN=OFF)")
endif()
add_library(opwright_cpu_dnnl INTERFACE)
target_link_libraries(opwright_cpu_dnnl INTERFACE DNNL::dnnl)
message(STATUS "oneDNN of the system: ${dnnl_DIR}, version ${dnnl_VERSION}")
