/* custom_call.h: what a kernel sees. Public C11 header, standard headers only.
 *
 * A kernel is a function over a *frame*: buffers (pointer, dtype, sizes, strides), attributes and scratch. The runtime
 * builds the frame, the driver decides when and where it runs. The same frame serves eager operators, captured graphs
 * and compiled programs, so a kernel is written once.
 *
 * Version rules. Every struct that crosses the boundary begins with `struct_size`, set by the side that fills it in.
 * Fields are only ever appended, never moved, removed or given another meaning. The reader must not touch a field that
 * lies beyond the writer's struct_size. Appending raises MYDEV_CUSTOM_CALL_VERSION_MINOR; anything else raises MAJOR.
 *
 * Memory. The caller of a kernel owns the frame and everything that it points to until the kernel returns. A kernel
 * keeps no pointer into it.
 *
 * Threads. A kernel may be called from several threads at once, each time with a frame of its own.
 */
#ifndef MYDEV_CUSTOM_CALL_H_
#define MYDEV_CUSTOM_CALL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MYDEV_CUSTOM_CALL_VERSION_MAJOR 1
#define MYDEV_CUSTOM_CALL_VERSION_MINOR 0

/* The 16 canonical codes, numbered as in absl, gRPC and PJRT. */
typedef enum mydev_code {
  MYDEV_OK = 0,
  MYDEV_CANCELLED = 1,
  MYDEV_UNKNOWN = 2,
  MYDEV_INVALID_ARGUMENT = 3,
  MYDEV_DEADLINE_EXCEEDED = 4,
  MYDEV_NOT_FOUND = 5,
  MYDEV_ALREADY_EXISTS = 6,
  MYDEV_PERMISSION_DENIED = 7,
  MYDEV_RESOURCE_EXHAUSTED = 8,
  MYDEV_FAILED_PRECONDITION = 9,
  MYDEV_ABORTED = 10,
  MYDEV_OUT_OF_RANGE = 11,
  MYDEV_UNIMPLEMENTED = 12,
  MYDEV_INTERNAL = 13,
  MYDEV_UNAVAILABLE = 14,
  MYDEV_DATA_LOSS = 15,
  MYDEV_UNAUTHENTICATED = 16
} mydev_code;

/* Element types, numbered as XLA's PrimitiveType, so that a value means the same on both sides. */
typedef enum mydev_dtype {
  MYDEV_DTYPE_INVALID = 0,
  MYDEV_PRED = 1, /* bool, one byte, 0 or 1 */
  MYDEV_S8 = 2,
  MYDEV_S16 = 3,
  MYDEV_S32 = 4,
  MYDEV_S64 = 5,
  MYDEV_U8 = 6,
  MYDEV_U16 = 7,
  MYDEV_U32 = 8,
  MYDEV_U64 = 9,
  MYDEV_F16 = 10,
  MYDEV_F32 = 11,
  MYDEV_F64 = 12,
  MYDEV_C64 = 15, /* two F32: real, imaginary */
  MYDEV_BF16 = 16,
  MYDEV_TOKEN = 17,
  MYDEV_C128 = 18, /* two F64: real, imaginary */
  MYDEV_F8E5M2 = 19,
  MYDEV_F8E4M3FN = 20
} mydev_dtype;

/* A strided view of device memory. */
typedef struct mydev_buffer {
  void* data;             /* first element, offset applied; NULL for an absent operand or one of no elements */
  const int64_t* sizes;   /* `rank` entries, >= 0 */
  const int64_t* strides; /* `rank` entries, in elements; 0 where the operand is broadcast; may be negative */
  int32_t rank;           /* >= 0 */
  int32_t dtype;          /* mydev_dtype */
} mydev_buffer;

typedef enum mydev_attribute_kind {
  MYDEV_ATTRIBUTE_BOOL = 0,       /* value.i: 0 or 1 */
  MYDEV_ATTRIBUTE_INT = 1,        /* value.i */
  MYDEV_ATTRIBUTE_FLOAT = 2,      /* value.f */
  MYDEV_ATTRIBUTE_COMPLEX = 3,    /* value.c: real, imaginary */
  MYDEV_ATTRIBUTE_STRING = 4,     /* value.bytes, `count` bytes, not NUL-terminated */
  MYDEV_ATTRIBUTE_INT_ARRAY = 5,  /* value.ints, `count` entries */
  MYDEV_ATTRIBUTE_FLOAT_ARRAY = 6 /* value.floats, `count` entries */
} mydev_attribute_kind;

typedef struct mydev_attribute {
  const char* name; /* NUL-terminated */
  int32_t kind;     /* mydev_attribute_kind */
  uint32_t count;   /* of entries or bytes, for strings and arrays; else 0 */
  union {
    int64_t i;
    double f;
    double c[2];
    const char* bytes;
    const int64_t* ints;
    const double* floats;
  } value;
} mydev_attribute;

typedef struct mydev_stream_s* mydev_stream; /* a driver's stream */
typedef struct mydev_event_s* mydev_event;   /* a driver's event */

struct mydev_frame;

/* What the runtime offers to kernels and drivers. Lives as long as the process. */
typedef struct mydev_host_services {
  size_t struct_size;
  /* Gives the message that goes with the non-OK code which the kernel is about to return. Copied. Thread-safe. */
  void (*set_error)(const struct mydev_frame* frame, const char* message);
  /* Runs body(context, begin, end) over [0, count) in pieces of at least `grain`, on the process's one thread pool;
   * returns when all are done. body must not throw. */
  void (*parallel_for)(int64_t count, int64_t grain, void (*body)(void* context, int64_t begin, int64_t end),
                       void* context);
  /* Ends a launch that a driver accepted for later execution: called exactly once for such a frame, after the work is
   * finished; `code` non-OK makes the stream's error stick. The frame is freed by this call. Any thread. */
  void (*complete)(struct mydev_frame* frame, mydev_code code);
} mydev_host_services;

/* One call of one kernel. */
typedef struct mydev_frame {
  size_t struct_size;
  const mydev_buffer* buffers; /* the outputs, then the inputs */
  uint32_t num_outputs;
  uint32_t num_inputs;
  const mydev_attribute* attributes; /* in the order that the kernel documents */
  uint32_t num_attributes;
  int32_t device;         /* index of the device it runs on */
  void* scratch;          /* device memory, 64-byte aligned; NULL if the kernel asked for none */
  uint64_t scratch_bytes; /* what the kernel asked for */
  mydev_stream stream;    /* the driver's stream it runs on */
  const mydev_host_services* host;
  void* launch; /* private to the runtime */
} mydev_frame;

typedef mydev_code (*mydev_kernel_fn)(const mydev_frame* frame);

/* A kernel record. Static storage: it must outlive the registry. */
typedef struct mydev_kernel {
  size_t struct_size;
  const char* name;      /* [A-Za-z0-9_.:-]{1,128}; "mydev." is the prefix of the built-in kernels */
  mydev_kernel_fn entry; /* host function that does the work; NULL when only the driver can run the record */
  uint64_t (*scratch_bytes)(const mydev_frame* frame); /* bytes of scratch for this frame; NULL: none */
  const char* doc;                                     /* one line: operands and attributes; may be NULL */
  void* driver_data;                                   /* private to the driver that offers the record; else NULL */
} mydev_kernel;

#if defined(_WIN32)
#define MYDEV_EXPORT __declspec(dllexport)
#else
#define MYDEV_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MYDEV_CUSTOM_CALL_H_ */
