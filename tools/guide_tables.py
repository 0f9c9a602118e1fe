"""The tables of docs/accelerator-guide.md, which tools/list_guide.py writes: what each page of PyTorch's guide for
accelerators asks for, where that is done, and which tests show it."""

from __future__ import annotations

from dataclasses import dataclass

LEFT = "torch: "


@dataclass(frozen=True)
class Interface:
    """A class of torch that a backend derives from."""

    page: str  #: of the guide
    name: str
    headers: dict[str, str]  #: classes by the header or module that has them, from the derived one to its bases
    file: str  #: where this project derives from it
    derived: str  #: its class there
    entries: dict[str, str]  #: tests; or LEFT, and a sentence that says why torch's own is left as it is


_HOOKS = "device/test_device.py::"
_STREAM = "device/test_stream.py::"
_MEMORY = "device/test_memory.py::"
_COMPILE = "compile/test_compile.py::"
_KERNELS = "compile/test_inductor_registration.py::test_words_for_generated_python_do_what_they_say"
_NO_CPP = f"{LEFT}No C++ is generated around the kernels that the device compiles."

INTERFACES = (
    Interface(
        "hooks",
        "PrivateUse1HooksInterface",
        {
            "ATen/detail/PrivateUse1HooksInterface.h": "PrivateUse1HooksInterface",
            "ATen/detail/AcceleratorHooksInterface.h": "AcceleratorHooksInterface",
        },
        "csrc/aten/device/hooks.cpp",
        "Hooks",
        {
            "init": f"{_HOOKS}test_first_use_initializes",
            "hasPrimaryContext": "device/test_process.py::test_backward_in_many_threads",
            "getDefaultGenerator": f"{_HOOKS}test_seed_of_torch_reaches_the_device",
            "getNewGenerator": "ops/test_random.py::test_generator_argument_and_state",
            "getDeviceFromPtr": "cpp/runtime/test_caching_allocator.cpp",
            "getPinnedMemoryAllocator": f"{_MEMORY}test_pinned_memory_is_cached",
            "isPinnedPtr": f"{_MEMORY}test_pinned_memory_is_recognised",
            "isBuilt": f"{_HOOKS}test_device_is_available",
            "isAvailable": f"{_HOOKS}test_without_a_driver_torch_works_and_the_device_is_not_available",
            "deviceCount": f"{_HOOKS}test_device_is_available",
            "setCurrentDevice": f"{_HOOKS}test_set_device_takes_every_spelling",
            "getCurrentDevice": f"{_HOOKS}test_current_device_starts_as_the_first",
            "exchangeDevice": f"{_HOOKS}test_context_manager_changes_the_device_and_restores_it",
            "maybeExchangeDevice": f"{_HOOKS}test_context_manager_without_a_device_changes_nothing",
            "resizePrivateUse1Bytes": "device/test_tensor.py::test_storage_resize_keeps_contents",
        },
    ),
    Interface(
        "guard",
        "DeviceGuardImplInterface",
        {"c10/core/impl/DeviceGuardImplInterface.h": "DeviceGuardImplInterface"},
        "csrc/aten/device/device_guard.cpp",
        "DeviceGuard",
        {
            "type": f"{_HOOKS}test_device_of_another_type_is_refused",
            "exchangeDevice": f"{_HOOKS}test_device_of_follows_a_tensor",
            "getDevice": f"{_HOOKS}test_current_device_belongs_to_the_thread",
            "setDevice": f"{_HOOKS}test_set_device_changes_where_tensors_are_made",
            "uncheckedSetDevice": f"{_HOOKS}test_context_manager_restores_the_device_after_an_exception",
            "deviceCount": f"{_HOOKS}test_without_a_driver_torch_works_and_the_device_is_not_available",
            "getDeviceCapability": f"{_HOOKS}test_every_dtype_is_a_capability",
            "synchronizeDevice": f"{_STREAM}test_device_synchronization_waits_for_every_stream",
            "getStream": f"{_STREAM}test_default_stream_is_current_at_first",
            "getDefaultStream": f"{_STREAM}test_default_stream_is_current_at_first",
            "getStreamFromGlobalPool": f"{_STREAM}test_streams_of_the_pool_differ",
            "getNewStream": f"{_STREAM}test_stream_is_a_torch_stream_on_the_current_device",
            "exchangeStream": f"{_STREAM}test_context_makes_the_stream_current_and_restores",
            "getStreamNativeHandle": f"{_STREAM}test_native_handle_is_the_drivers",
            "queryStream": f"{_STREAM}test_new_stream_is_idle",
            "synchronizeStream": f"{_STREAM}test_synchronized_stream_is_idle_and_its_work_done",
            "isStreamCapturing": f"{_STREAM}test_no_stream_is_being_captured",
            "record": f"{_STREAM}test_event_is_recorded_on_the_given_stream",
            "block": f"{_STREAM}test_event_orders_work_of_two_streams",
            "queryEvent": f"{_STREAM}test_event_that_was_never_recorded_is_done",
            "synchronizeEvent": f"{_STREAM}test_recorded_event_is_done_after_synchronize",
            "destroyEvent": f"{_STREAM}test_event_of_a_dead_stream_object_stays_valid",
            "elapsedTime": f"{_STREAM}test_elapsed_time_is_in_milliseconds_and_not_negative",
            "recordDataPtrOnStream": f"{_MEMORY}test_recorded_stream_keeps_memory_until_it_has_passed",
        },
    ),
    Interface(
        "allocator",
        "DeviceAllocator",
        {"c10/core/CachingDeviceAllocator.h": "DeviceAllocator", "c10/core/Allocator.h": "Allocator"},
        "csrc/aten/memory/device_allocator.cpp",
        "Allocator",
        {
            "allocate": f"{_MEMORY}test_allocated_memory_follows_tensors",
            "raw_deleter": f"{LEFT}There is none: raw memory comes from `torch.mydev.caching_allocator_alloc`.",
            "is_simple_data_ptr": f"{LEFT}It compares the context with the address, which differ.",
            "copy_data": "device/test_copy_on_write.py",
            "initialized": f"{_MEMORY}test_figures_before_the_first_use_are_zero_and_load_no_driver",
            "emptyCache": f"{_MEMORY}test_freed_memory_stays_reserved_until_the_cache_is_emptied",
            "recordStream": f"{_MEMORY}test_recorded_stream_keeps_memory_until_it_has_passed",
            "getDeviceStats": f"{_MEMORY}test_torch_accelerator_gives_the_same_figures",
            "resetAccumulatedStats": f"{_MEMORY}test_totals_start_from_zero_after_a_reset",
            "resetPeakStats": f"{_MEMORY}test_peak_is_remembered_until_it_is_reset",
            "getMemoryInfo": f"{_MEMORY}test_memory_info_counts_what_is_reserved",
        },
    ),
    Interface(
        "compiler",
        "DeviceInterface",
        {"torch._dynamo.device_interface": "DeviceInterface"},
        "torch_mydev/compile/dynamo_interface.py",
        "DynamoInterface",
        {
            "device": "compile/test_dynamo_functions.py::test_current_device_is_guarded",
            "Event": f"{_COMPILE}test_streams_inside_a_compiled_function",
            "Stream": f"{_COMPILE}test_streams_inside_a_compiled_function",
            "Worker": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "Worker.set_device": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "Worker.current_device": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "Worker.get_device_properties": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "current_device": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "set_device": f"{_COMPILE}test_device_context_inside_a_compiled_function",
            "maybe_exchange_device": f"{_COMPILE}test_device_context_inside_a_compiled_function",
            "exchange_device": f"{_COMPILE}test_device_context_inside_a_compiled_function",
            "device_count": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "is_available": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "stream": f"{_COMPILE}test_streams_inside_a_compiled_function",
            "current_stream": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "set_stream": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "_set_stream_by_id": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "get_raw_stream": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "synchronize": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "get_device_properties": f"{LEFT}It asks `Worker.get_device_properties`.",
            "get_compute_capability": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "is_bf16_supported": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "is_dtype_supported": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "memory_allocated": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "is_triton_capable": f"{_COMPILE}test_interface_answers_what_the_module_answers",
            "raise_if_triton_unavailable": f"{LEFT}It raises where `is_triton_capable` says no.",
        },
    ),
    Interface(
        "compiler",
        "DeviceOpOverrides",
        {"torch._inductor.codegen.common": "DeviceOpOverrides"},
        "torch_mydev/compile/kernels/scheduling.py",
        "_DeviceOperations",
        {
            "import_get_raw_stream_as": _KERNELS,
            "set_device": _KERNELS,
            "synchronize": _KERNELS,
            "device_guard": _KERNELS,
            "current_stream": _KERNELS,
            "cpp_device_guard": _NO_CPP,
            "cpp_aoti_device_guard": _NO_CPP,
            "cpp_stream_guard": _NO_CPP,
            "cpp_aoti_stream_guard": _NO_CPP,
            "cpp_getStreamFromExternal": _NO_CPP,
            "kernel_header": _NO_CPP,
            "kernel_driver": _NO_CPP,
            "cpp_stream_type": _NO_CPP,
            "aoti_get_stream": _NO_CPP,
            "cpp_kernel_type": _NO_CPP,
            "cpp_device_ptr": _NO_CPP,
            "tma_descriptor_helpers": _NO_CPP,
            "cpp_scratch": _NO_CPP,
            "stream_handle": f"{LEFT}It is the attribute `native_handle`, which streams have.",
        },
    ),
)


@dataclass(frozen=True)
class Row:
    """Something that the guide asks for."""

    asked: str
    files: str  #: where it is done, with spaces between them
    tests: str  #: likewise; "" where nothing of it runs here


@dataclass(frozen=True)
class Section:
    """A page of the guide."""

    page: str
    title: str
    rows: tuple[Row, ...]


_AUTOLOAD = "device/test_autoload.py::"
_AUTOCAST = "train/test_autocast.py::"
_EXTENDING = "custom_call/test_extending.py::"
_TENSOR = "device/test_tensor.py::"
_GROUPS = "distributed/test_process_groups.py::"
_FACTORIES = "csrc/aten/ops/memory/factory_ops.cpp"
_STORAGES = "csrc/aten/ops/memory/storage_ops.cpp"
_COPIES = "csrc/aten/ops/memory/copy_ops.cpp"
_STREAMS = "csrc/runtime/stream/stream_table.cpp csrc/runtime/stream/stream.cpp"
_EVENTS = "csrc/runtime/stream/event.cpp"

SECTIONS = (
    Section(
        "autoload",
        "Autoload",
        (
            Row(
                "an entry point of the group `torch.backends`",
                "pyproject.toml torch_mydev/_entry_point.py",
                f"{_AUTOLOAD}test_any_order_of_imports_makes_the_device_known",
            ),
            Row(
                "a function that makes the device known, and does not break `import torch`",
                "torch_mydev/_autoload.py",
                f"{_AUTOLOAD}test_import_torch_survives_with_one_warning",
            ),
            Row(
                "`TORCH_DEVICE_BACKEND_AUTOLOAD=0`",
                "torch_mydev/__init__.py",
                f"{_AUTOLOAD}test_autoload_can_be_switched_off",
            ),
        ),
    ),
    Section(
        "operators",
        "Operators",
        (
            Row(
                "`empty.memory_format`, `empty_strided`",
                _FACTORIES,
                f"{_TENSOR}test_empty_takes_a_memory_format {_TENSOR}test_factories_equal_cpu",
            ),
            Row("`as_strided`, `view`, `_reshape_alias`", _FACTORIES, f"{_TENSOR}test_views_share_memory"),
            Row("`resize_`", _STORAGES, f"{_TENSOR}test_resize"),
            Row(
                "`set_`, of a tensor, of a storage, and of one with an offset",
                _STORAGES,
                f"{_TENSOR}test_set_shares_the_storage",
            ),
            Row(
                "`_copy_from`, `_copy_from_and_resize`",
                _COPIES,
                "device/test_copy.py::test_round_trip_keeps_values_and_dtype",
            ),
            Row("`_local_scalar_dense`", _COPIES, "device/test_copy.py::test_item"),
            Row(
                "the fallback to the CPU, counted",
                "csrc/aten/host/fallback.cpp csrc/aten/host/census.cpp",
                "device/test_fallback.py::test_agrees_with_cpu",
            ),
            Row(
                "a fallback for one operator, or a refusal",
                "csrc/aten/host/host_ops.cpp",
                f"{_EXTENDING}test_fallback_of_one_operator_wins_over_its_composite",
            ),
            Row("stubs", "csrc/aten/host/stubs.cpp", f"{_EXTENDING}test_unary_stub"),
            Row(
                "operators of one's own: schema, kernel, gradient, meta",
                "csrc/aten/ops/pointwise/swiglu.cpp csrc/aten/custom_call/custom_operator.cpp",
                f"{_EXTENDING}test_swiglu_registration_is_consistent {_EXTENDING}test_python_custom_operator",
            ),
        ),
    ),
    Section(
        "device",
        "Devices",
        (
            Row(
                "the name of the device, its module, `Tensor.mydev()`",
                "torch_mydev/_autoload.py torch_mydev/device/device_module.py",
                f"{_HOOKS}test_device_module_is_found_by_torch",
            ),
            Row(
                "`device_count`, `current_device`, `set_device`",
                "torch_mydev/device/devices.py csrc/python/device_bindings.cpp",
                f"{_HOOKS}test_set_device_takes_every_spelling",
            ),
            Row(
                "indices that do not exist, and other devices, are refused",
                "torch_mydev/device/devices.py",
                f"{_HOOKS}test_index_that_does_not_exist_is_refused_with_the_range",
            ),
        ),
    ),
    Section("hooks", "Hooks", ()),
    Section("guard", "Guard", ()),
    Section(
        "stream",
        "Streams",
        (
            Row(
                "a pool for each device and priority",
                _STREAMS,
                f"{_STREAM}test_streams_of_the_pool_differ {_STREAM}test_priority_is_mapped_into_the_range",
            ),
            Row("a current stream for each thread", _STREAMS, f"{_STREAM}test_current_stream_belongs_to_the_thread"),
            Row(
                "streams from elsewhere",
                "torch_mydev/device/stream.py csrc/python/stream_bindings.cpp",
                f"{_STREAM}test_external_stream_runs_work",
            ),
            Row(
                "`torch.Stream` as a context",
                "csrc/aten/device/device_guard.cpp",
                f"{_STREAM}test_context_restores_after_an_exception",
            ),
        ),
    ),
    Section(
        "event",
        "Events",
        (
            Row("record, again too", _EVENTS, f"{_STREAM}test_event_can_be_recorded_again"),
            Row("a stream waits", _EVENTS, f"{_STREAM}test_several_streams_wait_for_one_event"),
            Row("query, synchronize", _EVENTS, f"{_STREAM}test_recorded_event_is_done_after_synchronize"),
            Row("timing", _EVENTS, f"{_STREAM}test_elapsed_time_needs_timing"),
            Row(
                "between processes",
                "csrc/runtime/stream/shared_event.cpp",
                "device/test_shared_event.py",
            ),
        ),
    ),
    Section(
        "generator",
        "Random numbers",
        (
            Row(
                "a `GeneratorImpl`, one for each device, and more on request",
                "csrc/aten/device/generator.cpp",
                "ops/test_random.py::test_generator_of_the_device_is_taken",
            ),
            Row(
                "seeds, of one device and of all",
                "torch_mydev/device/random.py",
                f"{_HOOKS}test_manual_seed_all_seeds_every_device_alike",
            ),
            Row("states", "torch_mydev/device/random.py", f"{_HOOKS}test_state_round_trip"),
            Row("offsets", "csrc/aten/device/generator.cpp", f"{_HOOKS}test_offset_of_the_state_round_trips"),
        ),
    ),
    Section(
        "amp",
        "Mixed precision",
        (
            Row(
                "`get_amp_supported_dtype`",
                "torch_mydev/device/amp.py",
                f"{_AUTOCAST}test_unsupported_dtype_warns_and_disables",
            ),
            Row(
                "operators in the lower precision",
                "csrc/aten/device/autocast.cpp",
                f"{_AUTOCAST}test_runs_in_the_lower_precision",
            ),
            Row(
                "operators in float32, with the dtype that was asked for",
                "csrc/aten/device/autocast.cpp",
                f"{_AUTOCAST}test_runs_in_float32 {_AUTOCAST}test_keeps_the_dtype_that_was_asked_for",
            ),
            Row("promotion", "csrc/aten/device/autocast.cpp", f"{_AUTOCAST}test_promotes_to_the_widest_operand"),
            Row(
                "all others fall through", "csrc/aten/device/autocast.cpp", f"{_AUTOCAST}test_other_ops_are_left_alone"
            ),
            Row("gradient scaling", "torch_mydev/device/amp.py", f"{_AUTOCAST}test_grad_scaler_trains_as_on_the_cpu"),
        ),
    ),
    Section(
        "allocator",
        "Memory",
        (
            Row(
                "`REGISTER_ALLOCATOR`; blocks are cached by stream",
                "csrc/aten/memory/device_allocator.cpp csrc/runtime/memory/caching_allocator.cpp",
                f"{_MEMORY}test_memory_of_a_stream_is_not_given_to_another",
            ),
            Row(
                "nobody waits for the GIL with the allocator's lock",
                "csrc/aten/memory/memory_history.cpp",
                "device/test_memory_history.py::test_threads_record_too",
            ),
            Row(
                "pinned memory of the host",
                "csrc/aten/memory/pinned_memory.cpp",
                f"{_MEMORY}test_pinned_source_may_be_dropped_before_its_copy_has_run",
            ),
        ),
    ),
    Section(
        "profiler",
        "Profiler",
        (
            Row(
                "`ProfilerStubs`, for the legacy profiler",
                "csrc/aten/trace/profiler.cpp",
                "device/test_profiler.py::test_device_times_of_the_legacy_profiler",
            ),
            Row(
                "a profiler of Kineto, for rows of the device",
                "csrc/aten/trace/kineto_profiler.cpp",
                "device/test_profiler_rows.py::test_row_of_a_kernel",
            ),
            Row(
                "shapes, stacks, ranges",
                "csrc/aten/trace/profiler.cpp",
                "device/test_profiler.py::test_records_shapes device/test_profiler.py::test_nested_ranges",
            ),
        ),
    ),
    Section(
        "distributed",
        "Several processes",
        (
            Row(
                "a `c10d::Backend`, with collectives, barrier, sending and receiving",
                "csrc/distributed/device_backend.h csrc/distributed/collectives.cpp",
                "distributed/test_collectives.py::test_reduction distributed/test_collectives.py::test_movement",
            ),
            Row("its `Work`", "csrc/distributed/device_work.cpp", "distributed/test_collective_work.py"),
            Row(
                "collectives in captured graphs, and in compiled code",
                "csrc/distributed/captured_work.cpp torch_mydev/compile/collectives.py",
                "distributed/test_captured_collectives.py distributed/test_compiled_collectives.py",
            ),
            Row("splitting", "csrc/distributed/device_backend.cpp", f"{_GROUPS}test_split_group"),
            Row("coalescing", "csrc/distributed/coalesced_work.cpp", f"{_GROUPS}test_coalescing"),
            Row(
                "bindings and registration, by the name of the device",
                "csrc/python/distributed_bindings.cpp torch_mydev/distributed/backend.py",
                f"{_GROUPS}test_backend_is_chosen",
            ),
            Row(
                "a vendor's own library in its place",
                "torch_mydev/distributed/backend.py",
                f"{_GROUPS}test_vendors_backend_takes_the_place_of_the_default",
            ),
        ),
    ),
    Section(
        "testing",
        "Upstream's tests",
        (
            Row(
                "PyTorch's tests for any device, by `mydev conform upstream`",
                "torch_mydev/conform/upstream_tests.py",
                "drivers/test_conform_upstream.py",
            ),
            Row(
                "`hw_classification`: tests for any accelerator",
                "torch_mydev/conform/upstream_tests.py",
                "drivers/test_conform_upstream.py::test_each_test_of_pytorch_ends_in_its_way",
            ),
            Row(
                "the operator database, by `mydev conform operators`",
                "torch_mydev/conform/operators/harness.py",
                "conformance/test_opinfo.py",
            ),
        ),
    ),
    Section(
        "ci",
        "PyTorch's relay of changes",
        (
            Row(
                "a workflow that takes part, in the package that `mydev new-device` writes",
                "mydev/new_device/template/github/workflows/pytorch.yml",
                "",
            ),
        ),
    ),
    Section(
        "compiler",
        "torch.compile",
        (
            Row(
                "a backend of Dynamo, and a device interface",
                "torch_mydev/compile/registration.py",
                f"{_COMPILE}test_backend_of_the_devices_name_is_the_default_one",
            ),
            Row(
                "Inductor's scheduling and wrapper",
                "torch_mydev/compile/kernels/scheduling.py",
                "compile/test_kernel_graphs.py::test_reductions",
            ),
            Row(
                "graph breaks, dynamic shapes, gradients, modules",
                "torch_mydev/compile/backend.py",
                f"{_COMPILE}test_graph_break_in_the_middle {_COMPILE}test_dynamic_shapes_compile_once "
                f"{_COMPILE}test_module_trains_as_on_the_cpu",
            ),
            Row(
                "native code ahead of time is refused",
                "torch_mydev/compile/backend.py",
                "compile/test_inductor.py::test_export_to_native_code_is_refused",
            ),
        ),
    ),
)
