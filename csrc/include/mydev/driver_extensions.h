/* driver_extensions.h: what some devices can do beyond driver.h. Public C11 header.
 *
 * An extension is a table of functions under a name. The driver lists what it has, and the runtime asks for the tables
 * that it knows: mydev_driver_api.extensions, .extension. A driver that lists none is complete: each extension says
 * what its absence means. The runtime checks the tables when it loads the driver, and shows what a driver has in
 * `mydev doctor`. Extensions that nothing calls yet are proposals: driver_extensions_draft.h.
 *
 * Version rules. An extension has one number. A higher one only appends to the table; a change that cannot be appended
 * gets another name. The runtime asks with the highest version that it knows, or the one that is listed if that is
 * lower; the driver gives a table whose `version` is at most that, and whose struct_size covers it. Unknown names are
 * ignored. Entries that are not marked optional must be given.
 *
 * Errors, threads and order are those of driver.h; handles belong to the driver. Structs that the runtime gives to be
 * filled in have their struct_size set.
 */
#ifndef MYDEV_DRIVER_EXTENSIONS_H_
#define MYDEV_DRIVER_EXTENSIONS_H_

#include "mydev/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each table begins with this head. */
typedef struct mydev_extension_head {
  size_t struct_size;
  uint32_t version; /* that the table is of */
  uint32_t reserved;
} mydev_extension_head;

/* --- profiler: what the device did when --------------------------------------------------------------------------- */

/* Absent: profiles show work from when its stream was free for it, or, where the driver has no stream_host_call, when
 * it was given. */

#define MYDEV_PROFILER_EXTENSION "profiler"
#define MYDEV_PROFILER_VERSION 1

typedef enum mydev_activity_kind {
  MYDEV_ACTIVITY_LAUNCH = 0,
  MYDEV_ACTIVITY_COPY = 1,
  MYDEV_ACTIVITY_FILL = 2,
  MYDEV_ACTIVITY_WAIT = 3, /* of a stream for an event */
  MYDEV_ACTIVITY_HOST_CALL = 4
} mydev_activity_kind;

/* One piece of work that has run. */
typedef struct mydev_activity {
  size_t struct_size;
  int32_t kind; /* mydev_activity_kind */
  int32_t device;
  mydev_stream stream;
  const char* name;   /* of the kernel; NULL for others; valid during the call that gives the record */
  uint64_t launch_id; /* see set_launch_id */
  uint64_t begin;     /* ticks of the device's clock */
  uint64_t end;
  uint64_t bytes; /* of a copy or a fill; else 0 */
} mydev_activity;

/* One moment on both clocks. Two pairs give the ticks' length and drift. */
typedef struct mydev_clock_pair {
  size_t struct_size;
  uint64_t device_ticks;
  int64_t host_nanoseconds; /* of CLOCK_MONOTONIC */
} mydev_clock_pair;

typedef struct mydev_profiler_extension {
  mydev_extension_head head;
  mydev_code (*start)(int32_t device); /* records from now on */
  mydev_code (*stop)(int32_t device);
  /* Work that the calling thread gives to streams from now on carries this id, until the next call; 0: none. */
  void (*set_launch_id)(uint64_t id);
  /* Gives each record of finished work once, in any order, and forgets it. `sink` is called before this returns. */
  mydev_code (*flush)(int32_t device, void (*sink)(void* context, const mydev_activity* activity), void* context);
  mydev_code (*clock_pair)(int32_t device, mydev_clock_pair* out_pair);
} mydev_profiler_extension;

/* --- compiler: kernels from source or binaries at run time -------------------------------------------------------- */

/* Absent: the device runs the driver's own kernels only, and torch.compile generates no code for it. */

#define MYDEV_COMPILER_EXTENSION "compiler"
#define MYDEV_COMPILER_VERSION 2
#define MYDEV_MODULE_BINARY "binary" /* the language of what module_binary gave */

typedef struct mydev_module_s* mydev_module; /* code that is ready for a device */

typedef struct mydev_module_source {
  size_t struct_size;
  const char* language; /* one of `languages`, or MYDEV_MODULE_BINARY, for the same architecture */
  const void* data;
  uint64_t bytes;
  const char* options; /* of the compiler, as it takes them; "" if none */
} mydev_module_source;

/* How many threads run a kernel: grid[i] groups of group[i] threads. Dimension 0 varies fastest. A dimension that is
 * not used is 1; a 0, or more than the device can run, is MYDEV_INVALID_ARGUMENT. Groups run in any order, and at
 * the same time. */
typedef struct mydev_geometry {
  size_t struct_size;
  uint32_t grid[3];
  uint32_t group[3];
  uint64_t local_memory; /* bytes of each group, besides what the code declares; their contents are undefined */
} mydev_geometry;

/* What the device's code can do, since version 2. Whoever writes code looks before it uses these. */
enum mydev_compiler_feature {
  MYDEV_COMPILER_F64 = 1u << 0,        /* it computes in f64, and takes parameters of that type */
  MYDEV_COMPILER_ATOMIC_F32 = 1u << 1, /* atomic operations on 32 bits of the device's memory, to add f32 with */
  MYDEV_COMPILER_ATOMIC_S64 = 1u << 2, /* the same on 64 bits, to add s64 and f64 with */
  MYDEV_COMPILER_SCALAR_MATH = 1u << 3 /* the language's erf and tanh are slow beside exp, as calls for each element:
                                          generated code brings polynomials */
};

/* How a function is given the memory of a buffer, since version 2. */
enum mydev_parameter_form {
  MYDEV_PARAMETERS_POINTERS = 0, /* a pointer to its first element */
  /* Two parameters: a pointer to memory that `launch` chooses, such as the beginning of the allocation, and an s64, the
   * bytes from there to the first element. For devices that cannot make pointers into the middle of their memory. */
  MYDEV_PARAMETERS_BASE_AND_OFFSET = 1
};

/* Since version 2. Without it: 1024 threads of a group, any grid, all features but SCALAR_MATH, POINTERS, no fault
 * word. */
typedef struct mydev_compiler_properties {
  size_t struct_size;               /* set by the runtime before the call */
  uint32_t max_group[3];            /* threads of a group in each dimension; at least 1 */
  uint32_t max_group_threads;       /* in all dimensions together; at least 1 */
  uint32_t max_grid[3];             /* groups of a launch in each dimension; at least 1 */
  uint32_t preferred_group_threads; /* that suit most code, up to max_group_threads; 0: not known */
  uint32_t subgroup_size;           /* threads that run in step; groups are then at least so large; 0: not known */
  uint32_t parameters;              /* mydev_parameter_form */
  uint64_t features;                /* mydev_compiler_feature bits */
  /* 1: functions have one parameter more, the last: a pointer to a u32 in the device's memory, which is 0 when the
   * launch begins. For languages without a trap: if the function leaves another number there, the launch has failed
   * with MYDEV_OUT_OF_RANGE, and the driver says so where it says that a kernel failed: by launch, complete or
   * stream_status. 0: no such parameter. */
  uint32_t fault_word;
} mydev_compiler_properties;

typedef struct mydev_compiler_extension {
  mydev_extension_head head;
  /* NULL-terminated: "opencl-c", "cuda-c", "msl", "c++", ...; the best first. Lives as long as the process. */
  mydev_code (*languages)(int32_t device, const char* const** out_languages);
  /* Bad source is MYDEV_INVALID_ARGUMENT, and last_error is what the compiler says of it. So is a language that is
   * not listed. Bytes of MYDEV_MODULE_BINARY that are another architecture's are MYDEV_FAILED_PRECONDITION. Keeps
   * nothing of *source. May take seconds. */
  mydev_code (*module_create)(int32_t device, const mydev_module_source* source, mydev_module* out_module);
  /* No launch of its kernels comes later; those given before run to their end. Does not wait for them. */
  mydev_code (*module_destroy)(mydev_module module);
  /* The module as bytes, for a cache: valid as long as the module. Optional: NULL, modules are compiled anew. */
  mydev_code (*module_binary)(mydev_module module, const void** out_data, uint64_t* out_bytes);
  /* A record for the function of that name, MYDEV_RUNS_DRIVER; MYDEV_NOT_FOUND if there is none. Lives as long as the
   * module, the same record each time. `launch` below is the one way to run it. The function's parameters are pointers
   * to the first elements of the frame's buffers in their order, results first, then its attributes by value in their
   * order: an INT as a signed integer of 64 bits, a FLOAT as a double. `properties` may say otherwise. */
  mydev_code (*module_kernel)(mydev_module module, const char* name, const mydev_kernel** out_kernel);
  /* `launch` of driver.h with a geometry, which is copied, for such a record. The frame has no scratch, no operand
   * that is one number, and no attribute of another kind. The buffers that it writes are its results, which may hold
   * values that the function reads. */
  mydev_code (*launch)(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame,
                       const mydev_geometry* geometry);
  /* Since version 2. What code for the device must keep to, the same each time. Optional: NULL, see below. */
  mydev_code (*properties)(int32_t device, mydev_compiler_properties* out_properties);
} mydev_compiler_extension;

/* --- programs: many kernels that the device compiles as one ------------------------------------------------------- */

/* Absent: a device is given one kernel at a time. With it a device needs no kernels: it compiles what it takes of each
 * program, and the runtime does the rest. Programs are those of JAX and PyTorch/XLA, captured graphs, and what
 * torch.compile records. */

#define MYDEV_PROGRAMS_EXTENSION "programs"
#define MYDEV_PROGRAMS_VERSION 1
#define MYDEV_NO_SLOT UINT32_MAX

typedef struct mydev_executable_s* mydev_executable; /* a program that was compiled */

/* A slot is memory that a program names. */
typedef enum mydev_slot_kind {
  MYDEV_SLOT_PARAMETER = 0, /* each run is given it */
  MYDEV_SLOT_RESULT = 1,    /* each run is given it to be written; what it holds before does not matter */
  MYDEV_SLOT_TEMPORARY = 2, /* steps hand it to each other, and nobody else sees it: it need not exist */
  MYDEV_SLOT_CONSTANT = 3   /* it holds `data` */
} mydev_slot_kind;

typedef struct mydev_slot {
  size_t struct_size;
  const char* name; /* which no other slot of the program has */
  int32_t kind;     /* mydev_slot_kind */
  int32_t updated;  /* 1: a parameter that steps write too: after a run it holds what they wrote */
  int32_t dtype;    /* mydev_dtype of its elements, which are dense and row-major; steps may see its bytes otherwise */
  int32_t rank;
  const int64_t* sizes;
  uint64_t bytes;
  const void* data; /* of a constant; else NULL */
} mydev_slot;

typedef enum mydev_step_kind {
  MYDEV_STEP_LAUNCH = 0, /* of a kernel, as custom_call.h and the contracts have it */
  MYDEV_STEP_COPY = 1,   /* of views of one dtype and sizes, which do not overlap */
  MYDEV_STEP_FILL = 2    /* of a dense view, as in driver.h */
} mydev_step_kind;

typedef struct mydev_step {
  size_t struct_size;
  int32_t kind; /* mydev_step_kind */
  uint32_t pattern_bytes;
  const void* pattern; /* of a fill */
  const char* kernel;  /* of a launch: "mydev.add"; else NULL */
  /* Results, then operands, and all attributes, as a launch would have them. A copy has one of each, a fill one result.
   * `data` is that of numbers (MYDEV_BUFFER_SCALAR), and NULL for others; an operand that is left out has no dtype
   * (MYDEV_DTYPE_INVALID). */
  const mydev_frame* frame;
  const uint32_t* slots;   /* of each buffer; MYDEV_NO_SLOT for those that have none */
  const uint64_t* offsets; /* of each buffer's first element in its slot, in bytes */
} mydev_step;

/* What a device is offered. All that it points to lives as long as it. Steps run in their order. */
typedef struct mydev_program mydev_program;
struct mydev_program {
  size_t struct_size;
  const char* name;
  uint32_t num_slots;
  uint32_t num_steps;
  uint32_t num_parameters;
  uint32_t num_results;
  const uint32_t* parameters; /* their slots, in the order of a run's addresses */
  const uint32_t* results;    /* slots of kind MYDEV_SLOT_RESULT, likewise */
  const mydev_slot* (*slot)(const mydev_program* program, uint32_t index);
  const mydev_step* (*step)(const mydev_program* program, uint32_t index);
  const char* (*text)(const mydev_program* program); /* all of it, for people and for logs */
};

typedef struct mydev_programs_extension {
  mydev_extension_head head;
  /* Whether the device's compiler takes the step: asked once for each step of a program, before compile. If not,
   * MYDEV_UNIMPLEMENTED, with last_error for people. */
  mydev_code (*takes)(int32_t device, const mydev_program* program, uint32_t step);
  /* Compiles a program of steps that it takes: a whole one if it takes all, else each of the longest runs of them.
   * Says how many bytes of the device's memory a run needs besides. MYDEV_UNIMPLEMENTED: it does not take them
   * together, and they are given one by one. Keeps nothing of *program. May take minutes. */
  mydev_code (*compile)(int32_t device, const mydev_program* program, mydev_executable* out_executable,
                        uint64_t* out_scratch_bytes);
  /* Runs it behind earlier work of the stream, with these addresses in the order of the program's, which are copied.
   * Memory of a parameter or a result is aligned to its elements; scratch as that of memory_alloc. Fails later by
   * stream_status. */
  mydev_code (*run)(mydev_stream stream, mydev_executable executable, void* const* parameters, void* const* results,
                    void* scratch);
  mydev_code (*destroy)(mydev_executable executable); /* none of its runs is pending */
  /* The executable as bytes, for a cache on disk: valid as long as the executable. Optional (both or neither): NULL,
   * each process compiles its programs. */
  mydev_code (*binary)(mydev_executable executable, const void** out_data, uint64_t* out_bytes);
  /* The executable of such bytes. MYDEV_FAILED_PRECONDITION: they are of another architecture or compiler, and the
   * program is compiled anew. */
  mydev_code (*load)(int32_t device, const void* data, uint64_t bytes, mydev_executable* out_executable,
                     uint64_t* out_scratch_bytes);
} mydev_programs_extension;

/* --- graph: work that is recorded once and launched often --------------------------------------------------------- */

/* Absent: there are no graphs; work is given piece by piece. A driver gives capture. */

#define MYDEV_GRAPH_EXTENSION "graph"
#define MYDEV_GRAPH_VERSION 1

typedef struct mydev_graph_s* mydev_graph;           /* what to do */
typedef struct mydev_graph_exec_s* mydev_graph_exec; /* the same, ready to launch */

typedef struct mydev_graph_extension {
  mydev_extension_head head;
  /* Work that is given to the stream, and to those that wait for its events, is recorded, not run: frames are
   * copied, and completed at once. Waits for the host, copies with ordinary host memory and records without
   * TRAIT_COMMAND_BUFFER_COMPATIBLE then fail with MYDEV_FAILED_PRECONDITION. Without them the runtime makes no
   * graphs. */
  mydev_code (*capture_begin)(mydev_stream stream);
  mydev_code (*capture_end)(mydev_stream stream, mydev_graph* out_graph);
  /* Reserved: the runtime does not call these four. A graph without work, and work that runs after the nodes in
   * `after`. Nodes are numbered from 0 as they are added. What a frame points to is copied. Leave them NULL. */
  mydev_code (*create)(int32_t device, mydev_graph* out_graph);
  mydev_code (*add_launch)(mydev_graph graph, const mydev_kernel* kernel, const mydev_frame* frame,
                           const uint32_t* after, uint32_t num_after);
  mydev_code (*add_copy)(mydev_graph graph, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind,
                         const uint32_t* after, uint32_t num_after);
  mydev_code (*add_fill)(mydev_graph graph, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes,
                         const uint32_t* after, uint32_t num_after);
  mydev_code (*instantiate)(mydev_graph graph, mydev_graph_exec* out_exec); /* the graph may be destroyed then */
  mydev_code (*launch)(mydev_graph_exec exec, mydev_stream stream); /* behind earlier ones; fails by stream_status */
  mydev_code (*destroy)(mydev_graph graph);
  mydev_code (*exec_destroy)(mydev_graph_exec exec); /* waits for its work */
} mydev_graph_extension;

/* --- telemetry: how busy a device is ------------------------------------------------------------------------------ */

/* Absent: torch.mydev.utilization and its like raise NotImplementedError. */

#define MYDEV_TELEMETRY_EXTENSION "telemetry"
#define MYDEV_TELEMETRY_VERSION 1

/* Of the hardware, whoever uses it. Percentages are of a recent period, which the driver chooses. */
typedef enum mydev_measure {
  MYDEV_MEASURE_UTILIZATION = 0,        /* percent of the time in which the device computed */
  MYDEV_MEASURE_MEMORY_UTILIZATION = 1, /* percent of the time in which its memory was read or written */
  MYDEV_MEASURE_TEMPERATURE = 2,        /* degrees Celsius */
  MYDEV_MEASURE_POWER = 3,              /* milliwatts */
  MYDEV_MEASURE_CLOCK = 4               /* megahertz of what computes */
} mydev_measure;

typedef struct mydev_telemetry_extension {
  mydev_extension_head head;
  /* MYDEV_UNIMPLEMENTED for measures that the device does not report, and for numbers that the driver does not know.
   * Waits for nothing. */
  mydev_code (*measure)(int32_t device, int32_t what, double* out_value);
} mydev_telemetry_extension;

/* --- collectives: what devices do together over links of their own ------------------------------------------------ */

/* Absent: devices exchange data by copies between them, or through the host, and kernels reduce. */

#define MYDEV_COLLECTIVES_EXTENSION "collectives"
#define MYDEV_COLLECTIVES_VERSION 1
#define MYDEV_COMMUNICATOR_ID_BYTES 4608

typedef struct mydev_communicator_s* mydev_communicator; /* one member of a group of devices */

/* Plain bytes, which the members tell each other. */
typedef struct mydev_communicator_id {
  uint8_t bytes[MYDEV_COMMUNICATOR_ID_BYTES];
} mydev_communicator_id;

/* Each element as the built-in kernel of this name reduces two of them. */
typedef enum mydev_reduction {
  MYDEV_REDUCTION_ADD = 0,     /* mydev.add */
  MYDEV_REDUCTION_MUL = 1,     /* mydev.mul */
  MYDEV_REDUCTION_MAXIMUM = 2, /* mydev.maximum: NaN if either is */
  MYDEV_REDUCTION_MINIMUM = 3, /* mydev.minimum: likewise */
  MYDEV_REDUCTION_AND = 4,     /* mydev.bitwise_and */
  MYDEV_REDUCTION_OR = 5,      /* mydev.bitwise_or */
  MYDEV_REDUCTION_XOR = 6      /* mydev.bitwise_xor */
} mydev_reduction;

/* The members call the operations of a communicator in one order, each on a thread of its own and on a stream of its
 * device. Operations run behind earlier work of the stream, and fail later by stream_status. All members get the same
 * bits. dst may be src, or for all_gather and reduce_scatter lie where the member's own part is; else they do not
 * overlap. MYDEV_UNIMPLEMENTED, which depends on dtype and reduction alone: the runtime makes the operation of send,
 * receive and kernels. */
typedef struct mydev_collectives_extension {
  mydev_extension_head head;
  /* An id for one new group. One member asks for it, in any process. */
  mydev_code (*unique_id)(mydev_communicator_id* out_id);
  /* Joins the group of this id as one of its `size` members. Returns when all have called it. */
  mydev_code (*create)(int32_t device, const mydev_communicator_id* id, int32_t size, int32_t rank,
                       mydev_communicator* out_communicator);
  mydev_code (*destroy)(mydev_communicator communicator); /* none of its operations is pending, or it was aborted */
  /* Ends pending operations, which fail, and calls that wait for other members. From any thread. The communicator is of
   * no more use, and is destroyed still. */
  mydev_code (*abort)(mydev_communicator communicator);
  /* Operations that the calling thread gives between these two are given together by group_end. Within them, a send
   * does not wait for later receives. They do not nest. */
  mydev_code (*group_start)(void);
  mydev_code (*group_end)(void);
  mydev_code (*send)(mydev_communicator communicator, mydev_stream stream, const void* src, uint64_t bytes, int32_t to);
  mydev_code (*receive)(mydev_communicator communicator, mydev_stream stream, void* dst, uint64_t bytes, int32_t from);
  /* `count` elements of src. */
  mydev_code (*all_reduce)(mydev_communicator communicator, mydev_stream stream, void* dst, const void* src,
                           uint64_t count, int32_t dtype, int32_t reduction);
  /* `count` elements of dst; src has as many for each member. */
  mydev_code (*reduce_scatter)(mydev_communicator communicator, mydev_stream stream, void* dst, const void* src,
                               uint64_t count, int32_t dtype, int32_t reduction);
  /* `bytes` of src; dst has as many for each member. */
  mydev_code (*all_gather)(mydev_communicator communicator, mydev_stream stream, void* dst, const void* src,
                           uint64_t bytes);
  mydev_code (*broadcast)(mydev_communicator communicator, mydev_stream stream, void* dst, const void* src,
                          uint64_t bytes, int32_t root);
  /* `bytes` for each member. Optional: NULL, it is made of send and receive. */
  mydev_code (*all_to_all)(mydev_communicator communicator, mydev_stream stream, void* dst, const void* src,
                           uint64_t bytes);
} mydev_collectives_extension;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MYDEV_DRIVER_EXTENSIONS_H_ */
