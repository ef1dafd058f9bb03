/*
 * The parts of XLA's interface for foreign functions that this library needs, XLA_FFI 0.1 and
 * later.
 *
 * The structs have the layout of ``xla/ffi/api/c_api.h`` of jaxlib up to the last field that is
 * read here; a test compares them with the header of the installed jaxlib. So one library serves
 * every jaxlib with major version 0 of the interface, and can be built without jaxlib.
 */
#ifndef OPWRIGHT_JAX_FFI_H_
#define OPWRIGHT_JAX_FFI_H_

#include <stddef.h>
#include <stdint.h>

#define FFI_MAJOR 0 /* the version of the interface whose layout this is */
#define FFI_OLDEST_MINOR 1

enum { FFI_EXTENSION_METADATA = 1 };
enum { FFI_INVALID_ARGUMENT = 3, FFI_OUT_OF_MEMORY = 8, FFI_INTERNAL = 13 };
enum { FFI_ATTR_SCALAR = 3, FFI_ATTR_STRING = 4 };
enum { FFI_BUFFER = 1 }; /* the only kind of argument and of result */

typedef struct ffi_extension {
  size_t struct_size;
  int32_t type; /* FFI_EXTENSION_ */
  struct ffi_extension* next;
} ffi_extension;

typedef struct ffi_version {
  size_t struct_size;
  ffi_extension* extensions;
  int32_t major;
  int32_t minor;
} ffi_version;

typedef struct ffi_metadata {
  size_t struct_size;
  ffi_version version;
  uint32_t traits;
} ffi_metadata;

typedef struct ffi_metadata_extension {
  ffi_extension base;
  ffi_metadata* metadata;
} ffi_metadata_extension;

typedef struct ffi_error ffi_error; /* XLA's own; NULL is success */

typedef struct ffi_error_create {
  size_t struct_size;
  ffi_extension* extensions;
  const char* message; /* copied */
  int32_t code;        /* FFI_ */
} ffi_error_create;

typedef struct ffi_api {
  size_t struct_size;
  ffi_extension* extensions;
  ffi_version version;
  const void* internal;
  ffi_error* (*error_create)(ffi_error_create* args);
} ffi_api;

typedef struct ffi_span {
  const char* data;
  size_t length;
} ffi_span;

typedef struct ffi_scalar {
  int32_t dtype;
  const void* value;
} ffi_scalar;

typedef struct ffi_buffer {
  size_t struct_size;
  ffi_extension* extensions;
  int32_t dtype; /* xla::PrimitiveType */
  void* data;
  int64_t rank;
  const int64_t* dims;
} ffi_buffer;

/* Arguments, and results. */
typedef struct ffi_buffers {
  size_t struct_size;
  ffi_extension* extensions;
  int64_t size;
  const int32_t* types;
  ffi_buffer** items;
} ffi_buffers;

/* Sorted by name. */
typedef struct ffi_attrs {
  size_t struct_size;
  ffi_extension* extensions;
  int64_t size;
  const int32_t* types; /* FFI_ATTR_ */
  const ffi_span** names;
  const void** items; /* ffi_span or ffi_scalar */
} ffi_attrs;

typedef struct ffi_frame {
  size_t struct_size;
  ffi_extension* extensions;
  const ffi_api* api;
  void* context;
  int32_t stage;
  ffi_buffers args;
  ffi_buffers results;
  ffi_attrs attrs;
} ffi_frame;

#endif /* OPWRIGHT_JAX_FFI_H_ */
