/* custom_call.h: bring a kernel. Public header for C11 and C++17, standard headers only; nothing to link with.
 *
 * A kernel is a function over a *frame*: buffers (pointer, dtype, sizes, strides), attributes and scratch. The runtime
 * builds the frame, the driver decides when and where it runs. The same frame serves eager operators, captured graphs
 * and compiled programs, so a kernel is written once. Kernels written for XLA's custom calls run as they are: see
 * mydev_kernel_kind.
 *
 * A *record* (mydev_kernel) says what a kernel is called and, in its signature, what it takes, so that it can become an
 * operator with a shape rule, a gradient and a batching rule. A *library* is a shared object that exports one function,
 * mydev_custom_call_query, which returns a table of records. docs/custom-calls.md is the guide.
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
#define MYDEV_CUSTOM_CALL_VERSION_MINOR 2

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

/* Element types, numbered as XLA's PrimitiveType, so that a value means the same on both sides. Each element has bytes
 * of its own: one of fewer than eight bits lies in the low bits of a byte, sign-extended if it is signed. */
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
  MYDEV_F8E4M3FN = 20,
  /* Since 1.2. No built-in kernel has one of these in its contract. */
  MYDEV_S4 = 21,
  MYDEV_U4 = 22,
  MYDEV_F8E4M3B11FNUZ = 23,
  MYDEV_F8E5M2FNUZ = 24,
  MYDEV_F8E4M3FNUZ = 25,
  MYDEV_S2 = 26,
  MYDEV_U2 = 27,
  MYDEV_F8E4M3 = 28,
  MYDEV_F8E3M4 = 29,
  MYDEV_F4E2M1FN = 32,
  MYDEV_F8E8M0FNU = 33
} mydev_dtype;

/* The value of an operand that is one number. */
typedef union mydev_scalar {
  int64_t i;   /* PRED (0 or 1) and integers */
  double f;    /* floating dtypes */
  double c[2]; /* complex dtypes: real, imaginary */
} mydev_scalar;

typedef enum mydev_buffer_flag {
  /* Since 1.1. The operand is one number: `data` is a const mydev_scalar* in *host* memory, valid as long as the frame,
   * `dtype` what the kernel is to compute it as, all strides 0. The value is not rounded to `dtype`. Only kernels whose
   * signature marks the operand SCALAR are given one, and never a record that was built for 1.0. */
  MYDEV_BUFFER_SCALAR = 1u << 0
} mydev_buffer_flag;

/* A strided view of device memory. */
typedef struct mydev_buffer {
  void* data;             /* first element, offset applied; NULL for an absent operand or one of no elements */
  const int64_t* sizes;   /* `rank` entries, >= 0 */
  const int64_t* strides; /* `rank` entries, in elements; 0 where the operand is broadcast; may be negative */
  int32_t rank;           /* >= 0 */
  int16_t dtype;          /* mydev_dtype */
  uint16_t flags;         /* mydev_buffer_flag; 0 in 1.0, where `dtype` had 32 bits */
} mydev_buffer;

typedef enum mydev_attribute_kind {
  MYDEV_ATTRIBUTE_BOOL = 0,        /* value.i: 0 or 1 */
  MYDEV_ATTRIBUTE_INT = 1,         /* value.i */
  MYDEV_ATTRIBUTE_FLOAT = 2,       /* value.f */
  MYDEV_ATTRIBUTE_COMPLEX = 3,     /* value.c: real, imaginary */
  MYDEV_ATTRIBUTE_STRING = 4,      /* value.bytes, `count` bytes, not NUL-terminated, any byte */
  MYDEV_ATTRIBUTE_INT_ARRAY = 5,   /* value.ints, `count` entries */
  MYDEV_ATTRIBUTE_FLOAT_ARRAY = 6, /* value.floats, `count` entries */
  MYDEV_ATTRIBUTE_ARRAY = 7,       /* value.data, `count` entries of `dtype` */
  MYDEV_ATTRIBUTE_DICTIONARY = 8   /* value.attributes, `count` entries, by name; nested at most 8 deep */
} mydev_attribute_kind;

typedef struct mydev_attribute {
  const char* name; /* NUL-terminated */
  uint16_t kind;    /* mydev_attribute_kind */
  uint16_t dtype;   /* mydev_dtype: of an ARRAY's entries; of a scalar, the width that a typed-FFI handler is given,
                       where 0 is PRED, S64 or F64 by kind. `value` holds the scalar as above whatever its width. */
  uint32_t count;   /* of entries or bytes, for strings, arrays and dictionaries; else 0 */
  union {
    int64_t i;
    double f;
    double c[2];
    const char* bytes;
    const int64_t* ints;
    const double* floats;
    const void* data;
    const struct mydev_attribute* attributes;
  } value;
} mydev_attribute;

typedef struct mydev_stream_s* mydev_stream; /* a driver's stream */
typedef struct mydev_event_s* mydev_event;   /* a driver's event */

struct mydev_frame;

/* Numbered as in Python's logging. Since 1.1. */
typedef enum mydev_log_level {
  MYDEV_LOG_DEBUG = 10,
  MYDEV_LOG_INFO = 20,
  MYDEV_LOG_WARNING = 30,
  MYDEV_LOG_ERROR = 40
} mydev_log_level;

/* The services that the runtime offers to kernels and drivers. They live as long as the process. */
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

  /* Since 1.1. */

  /* Logs a message for people: to Python's logger "torch_mydev", or to stderr where there is no Python. The message
   * is one line of UTF-8, and is copied. Waits for nobody: Python's main thread writes the message later.
   * Thread-safe. */
  void (*log)(mydev_log_level level, const char* message);
  /* Memory of a device from the runtime's caching allocator, in the order of the stream: for workspaces of libraries.
   * Usable at once by work on `stream`, a stream that a frame came with; 64-byte aligned; bytes > 0. On failure
   * *out_data stays as it is, and last_error gives the message. Call it with no lock held that entries of the driver
   * take: out of memory, the runtime waits for streams and gives memory back, if this thread is in a launch. */
  mydev_code (*device_alloc)(int32_t device, mydev_stream stream, uint64_t bytes, void** out_data);
  /* Gives it back; work given to `stream` before may still use it. `stream` may be another of the same device. */
  mydev_code (*device_free)(int32_t device, mydev_stream stream, void* data);
  /* Message of this thread's last failure of the two above; never NULL; valid until its next call. */
  const char* (*last_error)(void);
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
  void* launch;                      /* private to the runtime */
  const struct mydev_kernel* kernel; /* the record that is running */
  void* decision;                    /* since 1.1: what the record's `plan` decided for this frame; NULL without one */
} mydev_frame;

typedef mydev_code (*mydev_kernel_fn)(const mydev_frame* frame);

/* --- kinds of kernels --------------------------------------------------------------------------------------------- */

/* How a kernel is called. FRAME is this header's own. The others are XLA's, under the names of its API versions.
 *
 * XLA's kinds see dense row-major buffers only; operands that are not are made so before the call. The legacy ones see
 * no shapes. `opaque` is the record's string attribute "opaque", empty without one: bytes, not NUL-terminated. `out` is
 * the result's memory, or an array of the results' for a tuple: more or fewer than one result, or one with
 * MYDEV_TRAIT_TUPLE_RESULT. `buffers` are the operands', then the results'. Operands and results of dtype TOKEN arrive
 * as NULL. `status` is XLA's XlaCustomCallStatus*, set with XlaCustomCallStatusSetFailure, which the host provides
 * where the process has none; without it a kernel cannot report an error. */
typedef enum mydev_kernel_kind {
  MYDEV_KIND_FRAME = 0,           /* mydev_kernel_fn */
  MYDEV_KIND_TYPED_FFI = 1,       /* XLA_FFI_Error* f(XLA_FFI_CallFrame*), API version 4; also up to four stages */
  MYDEV_KIND_ORIGINAL_HOST = 2,   /* void f(void* out, const void** in), API version 1 */
  MYDEV_KIND_ORIGINAL_DEVICE = 3, /* void f(stream, void** buffers, const char* opaque, size_t opaque_len) */
  MYDEV_KIND_STATUS_HOST = 4,     /* void f(void* out, const void** in, status), API version 2 */
  MYDEV_KIND_STATUS_DEVICE = 5,   /* void f(stream, void** buffers, const char* opaque, size_t opaque_len, status) */
  MYDEV_KIND_UNIFIED_HOST = 6,    /* void f(void* out, const void** in, const char* opaque, size_t opaque_len, status),
                                     API version 3 */
  MYDEV_KIND_UNIFIED_DEVICE = 7   /* as STATUS_DEVICE */
} mydev_kernel_kind;

/* A function of a kind other than FRAME; cast to and from the signature above. */
typedef void (*mydev_function)(void);

typedef enum mydev_trait {
  MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE = 1u << 0, /* the same work at every call: may be captured and replayed */
  MYDEV_TRAIT_TUPLE_RESULT = 1u << 1               /* legacy host kinds: one result is a tuple of one */
} mydev_trait;

/* --- signatures: what makes a kernel an operator ------------------------------------------------------------------ */

#define MYDEV_DTYPE_BIT(dtype) (UINT64_C(1) << (dtype))
#define MYDEV_MAX_SHAPE_RANK 32

typedef enum mydev_operand_flag {
  MYDEV_OPERAND_OPTIONAL = 1u << 0, /* may be absent: data NULL, dtype INVALID, rank 0; at the end, TYPED_FFI kernels
                                       are not given it at all */
  MYDEV_OPERAND_VARIADIC = 1u << 1, /* any number of buffers; the last operand only. Of a result, the last one, `like`
                                       that operand: a buffer for each of its buffers, of the same dtype and sizes */
  MYDEV_OPERAND_STRIDED = 1u << 2,  /* FRAME kernels: any strides are welcome; else the buffer is made dense */
  MYDEV_OPERAND_SCALAR = 1u << 3    /* built-in kernels: may be one number, MYDEV_BUFFER_SCALAR */
} mydev_operand_flag;

/* An operand or a result. */
typedef struct mydev_operand {
  size_t struct_size;
  const char* name; /* an identifier that is no reserved word of Python */
  uint64_t dtypes;  /* MYDEV_DTYPE_BIT of each that is accepted; of a result: the one it has, or 0, see `like` */
  int32_t like;     /* of a result without `dtypes`: the operand whose dtype it has; of an operand: another that must
                       have the same dtype, or -1 */
  int32_t alias;    /* of a result: the operand whose memory it is, written in place, or -1. The operator returns it
                       only if it is the one result and the operand the first. */
  int32_t rank_min; /* of an operand */
  int32_t rank_max; /* of an operand; -1: any */
  uint32_t flags;   /* mydev_operand_flag; of a result VARIADIC or 0 */
  const char* doc;  /* may be NULL */
} mydev_operand;

typedef enum mydev_attribute_flag { MYDEV_ATTRIBUTE_REQUIRED = 1u << 0 } mydev_attribute_flag;

typedef struct mydev_attribute_spec {
  size_t struct_size;
  mydev_attribute value; /* name, kind and dtype; without REQUIRED also the default */
  uint32_t flags;        /* mydev_attribute_flag */
  const char* doc;       /* may be NULL */
} mydev_attribute_spec;

typedef struct mydev_shape {
  int32_t dtype;
  int32_t rank;
  int64_t sizes[MYDEV_MAX_SHAPE_RANK];
} mydev_shape;

typedef struct mydev_signature {
  size_t struct_size;
  const mydev_operand* const* operands;
  uint32_t num_operands;
  uint32_t num_results;
  const mydev_operand* const* results;
  const mydev_attribute_spec* const* attributes; /* in the order in which the frame has them */
  uint32_t num_attributes;
  /* The shapes of the results from those of the operands, after NumPy's generalised ufunc signatures:
   *
   *   "(m,k),(k,n)->(m,n)"    "(...,n),(n)->(...,n)"    "(...),(...)->(...)"    "(...,n)->(...),(2,@groups)"
   *
   * One list per operand, then one per result. A name is a size, the same wherever it appears; a number is that size;
   * "@name" is the value of that INT attribute. "..." comes first in its list and is any number of sizes, broadcast
   * against each other over the operands. A variadic operand's list holds for each of its buffers, an absent operand's
   * for nothing. A variadic result has no list. NULL: infer_shapes. */
  const char* shapes;
  /* For shapes that the rule above cannot express; sizes are then fixed when a program is compiled. `frame` has the
   * operands' dtypes, sizes and strides and the attributes, no data and no outputs; fills in the shapes of the
   * results that are not variadic. set_error says what is wrong with the operands. May be NULL if `shapes` is given. */
  mydev_code (*infer_shapes)(const mydev_frame* frame, mydev_shape* results);
  /* Since 1.2: a signature as text, in place of all of the above, which is then 0 or NULL. The language is that of the
   * built-in kernels' contracts (docs/kernels.md):
   *
   *   "(out T) <- (x T, y T; cap: float = 30)"    "dense (out T[n,k]) <- (a T[n,m], b T[m,k])"
   *
   * Operands of a kernel whose shapes are left out are broadcast against each other before the call. */
  const char* contract;
  const char* types; /* the dtypes of each letter of the contract, "T: f32 f64"; NULL: none has a letter */
  /* What the results are, over operands and attributes, "tanh(x / cap) * cap"; may be NULL. A kernel that computes
   * element by element has its gradient from this where its record names no other, of any order, and the batching rule
   * BROADCAST_ALL. `mydev conform kernels` compares the kernel with it. */
  const char* expression;
} mydev_signature;

/* The gradient of a kernel: another kernel, of the same attributes, whose operands are the saved values, then one
 * gradient per result of floating type, and whose results are the gradients of the operands in `wrt`. A variadic
 * operand that is saved comes last of all; one that is in `wrt`, where it is the last, must be saved as well, and the
 * gradient kernel's last result is then variadic. A kernel with a variadic result has no gradient. */
typedef struct mydev_gradient {
  size_t struct_size;
  const char* kernel;   /* its name, in this or in another library */
  const int32_t* saved; /* i >= 0: operand i; i < 0: result -1 - i */
  uint32_t num_saved;
  uint32_t num_wrt;
  const int32_t* wrt; /* operands that have a gradient */
} mydev_gradient;

/* How a kernel is called under a batching transformation, in the terms of jax.ffi's vmap_method. */
typedef enum mydev_batching {
  MYDEV_BATCHING_NONE = 0,         /* an error */
  MYDEV_BATCHING_SEQUENTIAL = 1,   /* once per element of the batch */
  MYDEV_BATCHING_EXPAND_DIMS = 2,  /* once: the batch is a leading dimension, of size 1 where an operand has none */
  MYDEV_BATCHING_BROADCAST_ALL = 3 /* once: every operand gets the leading dimension in full */
} mydev_batching;

/* --- taking a frame or declining it, since 1.1 -------------------------------------------------------------------- */

/* The part of its name's signature that a record takes. A frame beyond these limits is declined without asking. */
typedef enum mydev_limit_flag {
  MYDEV_LIMIT_DENSE = 1u << 0,     /* every buffer is dense and row-major: nothing transposed, broadcast or with gaps */
  MYDEV_LIMIT_NO_SCALARS = 1u << 1 /* no operand is one number */
} mydev_limit_flag;

/* Since 1.2: what a record takes for one result or operand of its name. */
typedef struct mydev_operand_limits {
  size_t struct_size;
  const char* name; /* as the contract of a built-in kernel, or the record's signature, calls the result or operand; all
                       buffers of a list go by its name */
  uint64_t dtypes;  /* MYDEV_DTYPE_BIT of each, in place of mydev_limits.dtypes; 0: those */
  int32_t rank_max; /* in place of mydev_limits.rank_max; -1: that */
  uint32_t flags;   /* mydev_limit_flag, beside those of mydev_limits */
} mydev_operand_limits;

typedef struct mydev_limits {
  size_t struct_size;
  uint64_t dtypes;  /* MYDEV_DTYPE_BIT of each that a buffer of the frame may have. 0: any; of a built-in kernel, those
                       that its contract does not have behind a bar, as products of f64 and integers */
  int32_t rank_max; /* of any buffer; -1: any */
  uint32_t flags;   /* mydev_limit_flag */
  /* Since 1.2: results and operands with limits of their own, `num_operands` of them, such as indices in s64 beside
   * values in f16. A name or a dtype that the contract does not have is an error when the record is looked up. */
  const mydev_operand_limits* const* operands;
  uint64_t num_operands;
} mydev_limits;

/* The decision of a kernel for a frame, made before its launch. */
typedef struct mydev_plan {
  size_t struct_size;              /* set by the caller */
  uint64_t scratch_bytes;          /* scratch for this frame; 0: none */
  void* decision;                  /* what frame->decision is to be when the kernel runs; NULL: nothing */
  void (*release)(void* decision); /* called once `decision` is used no more; any thread; NULL: nothing to release */
  /* Given: bit i says that whenever a kernel runs with this decision, the bytes of frame->buffers[i] are the same.
   * So data that it makes of them at its first run may be kept in the decision (weights in a layout of the kernel's
   * own). Runs may come from several threads at once. */
  uint64_t constants;
} mydev_plan;

/* Who runs a record. */
typedef enum mydev_runs {
  MYDEV_RUNS_BY_PLATFORM = 0,  /* as in 1.0: the driver its own records; of others those for platform Host as
                                  HOST_COMPUTE, those for the device as HOST_ENQUEUE */
  MYDEV_RUNS_HOST_COMPUTE = 1, /* `entry` does the work on the host, when the stream comes to it: the driver's launch
                                  calls it. Only where the host reaches the device's memory */
  MYDEV_RUNS_HOST_ENQUEUE = 2, /* `entry` enqueues the work on frame->stream and returns: the runtime calls it on the
                                  launching thread. It keeps nothing of the frame */
  MYDEV_RUNS_DRIVER = 3        /* the driver's launch knows what to do; `entry` may be NULL */
} mydev_runs;

/* --- records and libraries ---------------------------------------------------------------------------------------- */

/* A kernel record. Static storage: it must outlive the registry. Fields after `driver_data` may be left out. */
typedef struct mydev_kernel {
  size_t struct_size;
  const char* name;      /* [A-Za-z0-9_.:-]{1,128}; "mydev." is the prefix of the built-in kernels */
  mydev_kernel_fn entry; /* FRAME: does the work; NULL when only the driver can run the record. Other kinds: NULL, the
                            host puts its adaptor here */
  uint64_t (*scratch_bytes)(const mydev_frame* frame); /* bytes of scratch for this frame; NULL: none */
  const char* doc;                                     /* one line: operands and attributes; may be NULL */
  void* driver_data;                                   /* private to the driver that offers the record; else NULL */
  const char* platform; /* NULL or "Host": runs on the host, on memory that it reaches; else the device's name: enqueues
                           its work on the device's stream */
  int32_t kind;         /* mydev_kernel_kind */
  uint32_t traits;      /* mydev_trait */
  mydev_function execute;           /* kinds other than FRAME: the function */
  mydev_function instantiate;       /* TYPED_FFI: stages, each may be NULL: once per kernel and attributes */
  mydev_function prepare;           /* before each execution */
  mydev_function initialize;        /* before each execution, after prepare */
  const mydev_signature* signature; /* NULL: a kernel by name only, not an operator */
  const mydev_gradient* gradient;   /* NULL: not differentiable */
  int32_t batching;                 /* mydev_batching */
  int32_t runs;                     /* mydev_runs. Since 1.1, as what follows */
  const mydev_limits* limits;       /* NULL: takes all that its signature allows */
  /* Can the kernel take this frame? It is asked once before each launch, with everything in the frame but `scratch`,
   * `launch` and `decision`; buffers' data must not be read, nor their addresses kept: they may be others when the
   * kernel runs. OK: fills in *out. UNIMPLEMENTED: no, for the reason given with set_error, and the next record of
   * that name is asked, then the operator falls back; later refusals are errors. Any other code is an error. With it
   * scratch_bytes is not called. NULL: takes what `limits` allows. */
  mydev_code (*plan)(const mydev_frame* frame, mydev_plan* out);
} mydev_kernel;

/* The kernels that a library offers. Static storage. */
typedef struct mydev_library {
  size_t struct_size;
  uint32_t version_major; /* MYDEV_CUSTOM_CALL_VERSION_MAJOR the library was built with */
  uint32_t version_minor;
  const char* name;    /* for people */
  const char* version; /* of the library, for people */
  const mydev_kernel* const* kernels;
  uint32_t num_kernels;
} mydev_library;

/* Exported by a library under this name. Takes the host's version; returns NULL when it cannot work with that. Does
 * nothing else, and may be called again. */
#define MYDEV_CUSTOM_CALL_QUERY_SYMBOL "mydev_custom_call_query"
typedef const mydev_library* (*mydev_custom_call_query_fn)(uint32_t version_major, uint32_t version_minor);

#if defined(_WIN32)
#define MYDEV_EXPORT __declspec(dllexport)
#else
#define MYDEV_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MYDEV_CUSTOM_CALL_H_ */
