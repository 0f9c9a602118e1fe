/* driver.h: how to bring a device. Public C11 header.
 *
 * A driver is a shared object that exports one function, mydev_driver_query, which returns a table of functions. The
 * runtime calls them; everything above (allocator, operators, autograd, ...) is the runtime's. It is chosen by
 * MYDEV_DRIVER=<name or path>[:option,option...]; "host" is built in.
 *
 * Version rules: those of custom_call.h. A driver is accepted when its MAJOR equals the runtime's; entries beyond the
 * driver's struct_size count as NULL, and it leaves alone fields beyond the struct_size that the runtime sets.
 * Additions of a later MINOR than 0 are marked.
 *
 * Optional entries are marked; NULL there means what the comment says. All others must be given. Features that only
 * some devices have (graphs, a compiler, a profiler, ...) have tables of their own: driver_extensions.h.
 *
 * Errors. Each function returns a mydev_code; on failure last_error() of the same thread gives the message, which the
 * runtime copies at once. Out of memory is MYDEV_RESOURCE_EXHAUSTED. A function that fails leaves its outputs alone.
 *
 * Threads. Any function may be called from any thread, except that initialize is called once, before all others.
 *
 * Order. Work on one stream runs in the order of the calls. Work on different streams is unordered but for events.
 */
#ifndef MYDEV_DRIVER_H_
#define MYDEV_DRIVER_H_

#include "mydev/custom_call.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MYDEV_DRIVER_VERSION_MAJOR 1
#define MYDEV_DRIVER_VERSION_MINOR 2
#define MYDEV_DRIVER_QUERY_SYMBOL "mydev_driver_query"

enum mydev_device_capability {
  /* The host may read and write device memory through the same pointer (inside host_access_begin/end, where those are
   * given). Turns on host kernels by alias: PyTorch's CPU kernels on device memory, without a copy. */
  MYDEV_CAPABILITY_HOST_ACCESSIBLE = 1u << 0,
  /* launch, copy and fill may return before the work is done. */
  MYDEV_CAPABILITY_ASYNC = 1u << 1,
  /* copy_peer works between any two devices of this driver. */
  MYDEV_CAPABILITY_PEER = 1u << 2,
  /* launch, copy and fill take any memory of the process as if it were the device's own. Lets tensors lie in memory
   * that processes share. */
  MYDEV_CAPABILITY_UNIFIED_MEMORY = 1u << 3,
  /* Since 1.1, with ASYNC and stream_status: launch takes what it needs of the frame before it returns. See launch. */
  MYDEV_CAPABILITY_LAUNCH_COPIES = 1u << 4,
  /* Since 1.2, with HOST_ACCESSIBLE: the host reaches the memory slowly, as over a bus. PyTorch's CPU kernels still
   * work on it without a copy. The host's kernels do not: programs run them on copies, and torch.compile generates no
   * code for the host. */
  MYDEV_CAPABILITY_HOST_ACCESS_SLOW = 1u << 5
};

typedef struct mydev_device_properties {
  size_t struct_size;    /* set by the runtime before the call */
  char name[128];        /* NUL-terminated */
  uint64_t total_memory; /* bytes; allocations beyond it fail */
  uint32_t alignment;    /* bytes, of every pointer from memory_alloc; power of two, at least 64 */
  uint32_t capabilities; /* mydev_device_capability bits */
  int32_t major;         /* of the device's compute capability */
  int32_t minor;
  int32_t multi_processor_count; /* at least 1 */
  int32_t stream_priority_low;   /* least urgent; larger number = less urgent, as in CUDA */
  int32_t stream_priority_high;  /* most urgent; <= stream_priority_low */
  int32_t reserved;              /* 0 */
  /* Since 1.1. A field that is left 0 or "" is not known, and the runtime shows the value that is said here. */
  uint8_t uuid[16];          /* of the hardware, the same in every process; else made of names and index (version 8) */
  char architecture[64];     /* what code is compiled for, e.g. "sm_90"; else `name` */
  char driver_version[64];   /* of the vendor's software below this driver; else the `version` of its table */
  uint64_t native_dtypes;    /* MYDEV_DTYPE_BIT of each that the hardware computes in; else none is shown */
  uint64_t max_allocation;   /* bytes of the largest memory_alloc, at most total_memory; else total_memory */
  uint64_t local_memory;     /* bytes that the threads of one multi-processor share */
  uint64_t memory_bandwidth; /* bytes per second, at most */
} mydev_device_properties;

typedef enum mydev_copy_kind {
  MYDEV_COPY_HOST_TO_DEVICE = 0,
  MYDEV_COPY_DEVICE_TO_HOST = 1,
  MYDEV_COPY_DEVICE_TO_DEVICE = 2 /* both on the stream's device */
} mydev_copy_kind;

enum mydev_event_flag {
  MYDEV_EVENT_TIMING = 1u << 0 /* event_elapsed will be asked for */
};

/* A function of the runtime's, since 1.1. It throws nothing and calls no entry of the driver. */
typedef void (*mydev_host_function)(void* context);

typedef enum mydev_memory_kind {
  MYDEV_MEMORY_ORDINARY = 0, /* nothing that the driver knows of */
  MYDEV_MEMORY_PINNED = 1,   /* from host_alloc, or registered with host_register */
  MYDEV_MEMORY_DEVICE = 2
} mydev_memory_kind;

/* The memory that a pointer points into, since 1.1. */
typedef struct mydev_pointer_info {
  size_t struct_size; /* set by the runtime before the call */
  int32_t kind;       /* mydev_memory_kind */
  int32_t device;     /* of DEVICE; else -1 */
  void* base;         /* of the allocation; NULL for ORDINARY */
  uint64_t bytes;     /* of the allocation, as asked for; 0 for ORDINARY */
} mydev_pointer_info;

/* What the host does with memory, since 1.2. */
enum mydev_host_access {
  MYDEV_HOST_READS = 1u << 0, /* the memory holds what the device's work left there */
  MYDEV_HOST_WRITES = 1u << 1 /* later work of the device sees what the host wrote */
};

/* Something that the driver has beyond this table, since 1.1: driver_extensions.h. */
typedef struct mydev_extension {
  const char* name;
  uint32_t version; /* the highest that the driver knows, from 1 */
} mydev_extension;

typedef struct mydev_driver_api {
  size_t struct_size;
  uint32_t version_major; /* MYDEV_DRIVER_VERSION_MAJOR the driver was built with */
  uint32_t version_minor;
  const char* name;    /* short name of the driver, e.g. "host" */
  const char* version; /* of the driver, for people */

  /* --- life ------------------------------------------------------------------------------------------------------ */

  /* `options` is the text after the colon in MYDEV_DRIVER, "" if none; an unknown option is MYDEV_INVALID_ARGUMENT and
   * the message names it and the valid ones. `host` lives as long as the process. Starts no thread. */
  mydev_code (*initialize)(const char* options, const mydev_host_services* host);
  /* Optional: NULL, nothing to do. Called at most once, at exit, when no work is pending. */
  void (*finalize)(void);
  /* Message of this thread's last failure; never NULL; valid until this thread's next call. */
  const char* (*last_error)(void);

  /* --- devices --------------------------------------------------------------------------------------------------- */

  mydev_code (*device_count)(int32_t* out_count); /* 0 is allowed: no hardware present */
  mydev_code (*device_properties)(int32_t device, mydev_device_properties* out_properties);
  /* Waits for all work on the device. Optional: NULL, the runtime synchronizes its streams one by one. */
  mydev_code (*device_synchronize)(int32_t device);

  /* --- memory ---------------------------------------------------------------------------------------------------- */

  /* bytes > 0. The pointer is aligned to properties.alignment. Contents are undefined. The runtime counts on from it:
   * `pointer + n`, for n up to `bytes`, is given to entries and kernels as memory of this allocation. */
  mydev_code (*memory_alloc)(int32_t device, uint64_t bytes, void** out_data);
  /* `bytes` as given to memory_alloc. No work that uses it is pending. */
  mydev_code (*memory_free)(int32_t device, void* data, uint64_t bytes);
  /* Optional: NULL, the runtime computes free memory from total_memory and its own allocations. */
  mydev_code (*memory_info)(int32_t device, uint64_t* out_free, uint64_t* out_total);
  /* Page-locked host memory, page aligned. Optional (both or neither): NULL, ordinary host memory is used. */
  mydev_code (*host_alloc)(uint64_t bytes, void** out_data);
  mydev_code (*host_free)(void* data, uint64_t bytes);
  /* Brackets host access to device memory; nests; any thread. Optional (both or neither): NULL, access is always
   * allowed. Only for HOST_ACCESSIBLE devices. */
  mydev_code (*host_access_begin)(int32_t device);
  mydev_code (*host_access_end)(int32_t device);

  /* --- copies, on a stream --------------------------------------------------------------------------------------- */

  /* bytes > 0, no overlap. Host memory that is not from host_alloc may be read or written only before the call returns
   * (an asynchronous driver then waits). */
  mydev_code (*copy)(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind);
  /* Between two devices, on a stream of the source. Optional: NULL, the runtime goes through host memory. */
  mydev_code (*copy_peer)(mydev_stream stream, void* dst, int32_t dst_device, const void* src, int32_t src_device,
                          uint64_t bytes);
  /* Repeats `pattern` (pattern_bytes: 1, 2, 4, 8 or 16; copied before return) over `bytes`, a multiple of it. */
  mydev_code (*fill)(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes);

  /* --- streams --------------------------------------------------------------------------------------------------- */

  mydev_code (*stream_create)(int32_t device, int32_t priority, mydev_stream* out_stream);
  mydev_code (*stream_destroy)(mydev_stream stream); /* waits for its work */
  /* *out_done = 1 when all work given so far is finished, else 0. */
  mydev_code (*stream_query)(mydev_stream stream, int32_t* out_done);
  mydev_code (*stream_synchronize)(mydev_stream stream);
  /* Later work on `stream` waits for what `event` recorded last; an event never recorded does not wait. */
  mydev_code (*stream_wait_event)(mydev_stream stream, mydev_event event);

  /* --- events ---------------------------------------------------------------------------------------------------- */

  mydev_code (*event_create)(int32_t device, uint32_t flags, mydev_event* out_event);
  mydev_code (*event_destroy)(mydev_event event);
  mydev_code (*event_record)(mydev_event event, mydev_stream stream); /* again: replaces the earlier record */
  mydev_code (*event_query)(mydev_event event, int32_t* out_done);    /* never recorded: done */
  mydev_code (*event_synchronize)(mydev_event event);
  /* Milliseconds between two recorded, finished events made with MYDEV_EVENT_TIMING. */
  mydev_code (*event_elapsed)(mydev_event start, mydev_event end, double* out_milliseconds);

  /* --- work ------------------------------------------------------------------------------------------------------ */

  /* Runs kernel on stream. Without CAPABILITY_ASYNC: runs it now and returns its code; the frame is borrowed. With it:
   * MYDEV_OK means accepted; the driver owns the frame until it has called host->complete on it, exactly once. On
   * another code the frame stays the caller's.
   *
   * With LAUNCH_COPIES too, that holds for the host's records only. For a record of the driver's own (the one that
   * find_kernel gives for its name, or one that says MYDEV_RUNS_DRIVER) the frame is borrowed, `launch` in it is
   * NULL, and complete is not called. The driver copies operands, attributes and numbers before it returns. A failure
   * after that is reported by stream_status. A plan's decision is released when launch has returned. This saves a copy
   * of the frame and a callback for each launch. */
  mydev_code (*launch)(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame);
  /* This driver's own version of a well-known kernel, or NULL where it has none; the record lives as long as the
   * process. Optional: NULL, none. Without a version of its own the built-in host kernel is used if the device is
   * HOST_ACCESSIBLE, else the operator falls back. */
  const mydev_kernel* (*find_kernel)(int32_t device, const char* name);

  /* --- since 1.1: streams ---------------------------------------------------------------------------------------- */

  /* The first failure of the work given to the stream so far, or MYDEV_OK; last_error then gives its message. A
   * failure that is reported here was not given to complete, and is reported once: asking again gives MYDEV_OK,
   * unless the stream is beyond use. Does not wait. Asked at each wait for a stream, after the wait, where the
   * failure becomes the stream's sticky error. Optional: NULL, work fails in launch or by complete only. */
  mydev_code (*stream_status)(mydev_stream stream, mydev_code* out_status);
  /* Calls the function when the work given so far is done, failed or not; later work waits until it has returned.
   * MYDEV_OK: it will be called exactly once, on any thread. Used where a stream waits for the host (collectives on
   * memory that the host does not reach). Optional: NULL, the runtime waits and calls it itself. */
  mydev_code (*stream_host_call)(mydev_stream stream, mydev_host_function function, void* context);
  /* Reserved: the runtime does not call it, and the suite tries it where it is given. Calls the function once the work
   * that `event` recorded last is done; at once if it is, or was never recorded. Holds up no work. The event may be
   * recorded again or destroyed before. Optional: leave it NULL. */
  mydev_code (*event_on_done)(mydev_event event, mydev_host_function function, void* context);

  /* --- since 1.1: memory ----------------------------------------------------------------------------------------- */

  /* Copies elements between two views of equal sizes and dtype, whose strides may differ; the kind says where each
   * lies. No two elements of dst are one, and none lies in src. The rule of `copy` for ordinary host memory holds. The
   * dtype tells no more than the size of an element. Used between the host and a device, and on a device that has no
   * kernel for the copy. MYDEV_UNIMPLEMENTED, with nothing written: not these views, and the copy is made as without
   * this entry. Optional: NULL, elements are packed into dense memory on either side and copied densely. */
  mydev_code (*copy_strided)(mydev_stream stream, const mydev_buffer* dst, const mydev_buffer* src,
                             mydev_copy_kind kind);
  /* *out_can = 1 where copy_peer copies from `device` to `peer`, another one; asked once for each pair. Where it is 0
   * copies go through host memory. Optional: NULL, CAPABILITY_PEER of both tells. */
  mydev_code (*peer_access)(int32_t device, int32_t peer, int32_t* out_can);
  /* Reserved: the runtime does not call them, and the suite tries them where they are given. Make ordinary host memory
   * page-locked, and ordinary again. Optional (both or neither): leave them NULL. */
  mydev_code (*host_register)(void* data, uint64_t bytes);
  mydev_code (*host_unregister)(void* data, uint64_t bytes);
  /* Never fails for a pointer that the driver does not know. Used for pointers that are not the runtime's own: is the
   * memory page-locked, on which device does it lie. Optional: NULL, the runtime knows its own memory only. */
  mydev_code (*pointer_info)(const void* pointer, mydev_pointer_info* out_info);

  /* --- since 1.1: extensions ------------------------------------------------------------------------------------- */

  const mydev_extension* extensions; /* `num_extensions` of them; NULL if none */
  uint64_t num_extensions;
  /* The table of an extension that is listed, of at most this version, asked for once after initialize; it lives as
   * long as the process. Must be given where an extension is listed. */
  const void* (*extension)(const char* name, uint32_t version);

  /* --- since 1.2 ------------------------------------------------------------------------------------------------- */

  /* The records that find_kernel gives for their names, NULL-terminated, each name once; the list lives as long as the
   * process. For people and tools, as `mydev kernels`. Optional: NULL, kernels are asked for by name only. */
  mydev_code (*list_kernels)(int32_t device, const mydev_kernel* const** out_kernels);
  /* As host_access_begin and _end, for `bytes` > 0 of memory in one allocation, which the host reads, writes, or both
   * (mydev_host_access bits). Each end has the arguments of a begin. Nests and overlaps; any thread. Called instead of
   * these where the runtime knows the memory. Optional (both or neither; with them give host_access_begin and _end):
   * NULL, those. */
  mydev_code (*host_access_begin_range)(int32_t device, void* pointer, uint64_t bytes, uint32_t access);
  mydev_code (*host_access_end_range)(int32_t device, void* pointer, uint64_t bytes, uint32_t access);
} mydev_driver_api;

/* Exported by the driver. Takes the runtime's version; returns NULL when it cannot work with that. */
typedef const mydev_driver_api* (*mydev_driver_query_fn)(uint32_t version_major, uint32_t version_minor);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MYDEV_DRIVER_H_ */
