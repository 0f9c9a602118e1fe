// A program for each operator of StableHLO that is not pointwise, as text: what the reader is shown after jaxlib has
// serialised it. Each module is named after its operator; the last one has what Shardy adds.
module @after_all {
  func.func @main(%t: !stablehlo.token) -> (!stablehlo.token) {
    %0 = stablehlo.after_all %t, %t : !stablehlo.token
    return %0 : !stablehlo.token
  }
}
// -----
module @all_gather {
  func.func @main(%x: tensor<4x2xf32>) -> (tensor<4x4xf32>) {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0, 1], [2,
        3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>,
        use_global_device_ids}> : (tensor<4x2xf32>) -> tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
}
// -----
module @all_reduce {
  func.func @main(%x: tensor<4xf32>, %y: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
    %0:2 = "stablehlo.all_reduce"(%x, %y) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%lhs: tensor<f32>, %rhs: tensor<f32>):
      %sum = stablehlo.add %lhs, %rhs : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<4xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>)
    return %0#0, %0#1 : tensor<4xf32>, tensor<2xf32>
  }
}
// -----
module @all_to_all {
  func.func @main(%x: tensor<4x2xf32>) -> (tensor<2x4xf32>) {
    %0 = "stablehlo.all_to_all"(%x) <{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64,
        replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<4x2xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
// -----
module @batch_norm_grad {
  func.func @main(%x: tensor<2x2xf32>, %s: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %0:3 = "stablehlo.batch_norm_grad"(%x, %s, %s, %s, %x) <{epsilon = 1.0e-03 : f32, feature_index = 1 : i64}>
        : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>)
        -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)
    return %0#0, %0#1, %0#2 : tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
// -----
module @batch_norm_inference {
  func.func @main(%x: tensor<2x2xf32>, %s: tensor<2xf32>) -> (tensor<2x2xf32>) {
    %0 = "stablehlo.batch_norm_inference"(%x, %s, %s, %s, %s) <{epsilon = 0.5 : f32, feature_index = 1 : i64}>
        : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}
// -----
module @batch_norm_training {
  func.func @main(%x: tensor<2x2xf32>, %s: tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) {
    %0:3 = "stablehlo.batch_norm_training"(%x, %s, %s) <{epsilon = 0.5 : f32, feature_index = 1 : i64}>
        : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)
    return %0#0, %0#1, %0#2 : tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
// -----
module @bitcast_convert {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xui32>) {
    %0 = stablehlo.bitcast_convert %x : (tensor<4xf32>) -> tensor<4xui32>
    return %0 : tensor<4xui32>
  }
}
// -----
module @broadcast {
  func.func @main(%x: tensor<4xf32>) -> (tensor<2x3x4xf32>) {
    %0 = stablehlo.broadcast %x, sizes = [2, 3] : (tensor<4xf32>) -> tensor<2x3x4xf32>
    return %0 : tensor<2x3x4xf32>
  }
}
// -----
module @broadcast_in_dim {
  func.func @main(%x: tensor<4x1xf32>) -> (tensor<2x4x3xf32>) {
    %0 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<4x1xf32>) -> tensor<2x4x3xf32>
    return %0 : tensor<2x4x3xf32>
  }
}
// -----
module @case {
  func.func @main(%i: tensor<i32>, %x: tensor<f32>) -> (tensor<f32>) {
    %0 = "stablehlo.case"(%i) ({
      %n = stablehlo.negate %x : tensor<f32>
      stablehlo.return %n : tensor<f32>
    }, {
      stablehlo.return %x : tensor<f32>
    }, {
      %m = stablehlo.add %x, %x : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
// -----
module @cholesky {
  func.func @main(%x: tensor<3x3xf32>) -> (tensor<3x3xf32>) {
    %0 = stablehlo.cholesky %x, lower = true : tensor<3x3xf32>
    return %0 : tensor<3x3xf32>
  }
}
// -----
module @clamp {
  func.func @main(%m: tensor<f32>, %x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = stablehlo.clamp %m, %x, %m : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @collective_broadcast {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}>
        : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @collective_permute {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @compare {
  func.func @main(%x: tensor<4xf32>, %i: tensor<4xui8>) -> (tensor<4xi1>, tensor<4xi1>) {
    %0 = stablehlo.compare LT, %x, %x, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %1 = stablehlo.compare NE, %i, %i : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
    return %0, %1 : tensor<4xi1>, tensor<4xi1>
  }
}
// -----
module @complex {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xcomplex<f32>>) {
    %0 = stablehlo.complex %x, %x : tensor<4xcomplex<f32>>
    return %0 : tensor<4xcomplex<f32>>
  }
}
// -----
module @concatenate {
  func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x6xf32>) {
    %0 = stablehlo.concatenate %x, %x, dim = 1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
    return %0 : tensor<2x6xf32>
  }
}
// -----
module @constant {
  func.func @main() -> (tensor<2x2xf32>, tensor<10xi1>, tensor<3xi1>, tensor<i8>, tensor<2xcomplex<f64>>,
      tensor<3xi4>, tensor<0xf32>, tensor<2xbf16>, tensor<2xi64>, tensor<2xf8E4M3FN>) {
    %0 = stablehlo.constant dense<[[1.0, 2.0], [3.0, -4.5]]> : tensor<2x2xf32>
    %1 = stablehlo.constant dense<[true, false, true, true, false, false, false, false, true, true]> : tensor<10xi1>
    %2 = stablehlo.constant dense<true> : tensor<3xi1>
    %3 = stablehlo.constant dense<-7> : tensor<i8>
    %4 = stablehlo.constant dense<[(1.0, 2.0), (3.0, -1.0)]> : tensor<2xcomplex<f64>>
    %5 = stablehlo.constant dense<[1, -2, 7]> : tensor<3xi4>
    %6 = stablehlo.constant dense<> : tensor<0xf32>
    %7 = stablehlo.constant dense<[1.5, 0xFF80]> : tensor<2xbf16>
    %8 = stablehlo.constant dense<9007199254740993> : tensor<2xi64>
    %9 = stablehlo.constant dense<[0.5, 2.0]> : tensor<2xf8E4M3FN>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : tensor<2x2xf32>, tensor<10xi1>, tensor<3xi1>, tensor<i8>,
        tensor<2xcomplex<f64>>, tensor<3xi4>, tensor<0xf32>, tensor<2xbf16>, tensor<2xi64>, tensor<2xf8E4M3FN>
  }
}
// -----
module @convert {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xi8>) {
    %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi8>
    return %0 : tensor<4xi8>
  }
}
// -----
module @convolution {
  func.func @main(%x: tensor<1x8x8x4xf32>, %w: tensor<3x3x4x6xf32>) -> (tensor<1x4x6x6xf32>) {
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2,
        1], pad = [[1, 1], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false,
        true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64,
        precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision DEFAULT>]}
        : (tensor<1x8x8x4xf32>, tensor<3x3x4x6xf32>) -> tensor<1x4x6x6xf32>
    return %0 : tensor<1x4x6x6xf32>
  }
}
// -----
module @create_token {
  func.func @main() -> (!stablehlo.token) {
    %0 = stablehlo.create_token : !stablehlo.token
    return %0 : !stablehlo.token
  }
}
// -----
module @cross_replica_sum {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = "stablehlo.cross-replica-sum"(%x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @custom_call {
  func.func @main(%x: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xi32>) {
    %0:2 = stablehlo.custom_call @my_target(%x) {api_version = 4 : i32, has_side_effect = true,
        backend_config = {alpha = 2.0 : f32, name = "n", n = [1, 2]}, operand_layouts = [dense<[0,
        1]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>],
        output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0,
        operand_tuple_indices = []>]} : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xi32>)
    return %0#0, %0#1 : tensor<4x2xf32>, tensor<2xi32>
  }
}
// -----
module @dot {
  func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) -> (tensor<2x4xf32>) {
    %0 = stablehlo.dot %x, %y, precision = [HIGH, DEFAULT] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
// -----
module @dot_general {
  func.func @main(%x: tensor<5x2x3xf32>, %y: tensor<5x3x4xf32>) -> (tensor<5x2x4xf32>, tensor<5x2x4xf32>) {
    %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT,
        HIGHEST] : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
    %1 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1],
        algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16, accumulation_type = f32,
        lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3,
        allow_imprecise_accumulation = false> : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
    return %0, %1 : tensor<5x2x4xf32>, tensor<5x2x4xf32>
  }
}
// -----
module @dynamic_broadcast_in_dim {
  func.func @main(%x: tensor<4xf32>, %s: tensor<2xi32>) -> (tensor<?x4xf32>) {
    %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1] {known_expanding_dimensions = array<i64>,
        known_nonexpanding_dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<2xi32>) -> tensor<?x4xf32>
    return %0 : tensor<?x4xf32>
  }
}
// -----
module @dynamic_conv {
  func.func @main(%x: tensor<1x8x8x4xf32>, %w: tensor<3x3x4x6xf32>, %p: tensor<2x2xi32>) -> (tensor<1x?x?x6xf32>) {
    %0 = "stablehlo.dynamic_conv"(%x, %w, %p) <{batch_group_count = 1 : i64, feature_group_count = 1 : i64,
        dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>}>
        : (tensor<1x8x8x4xf32>, tensor<3x3x4x6xf32>, tensor<2x2xi32>) -> tensor<1x?x?x6xf32>
    return %0 : tensor<1x?x?x6xf32>
  }
}
// -----
module @dynamic_gather {
  func.func @main(%x: tensor<4x8xf32>, %i: tensor<3x1xi32>, %s: tensor<2xi32>) -> (tensor<3x8xf32>) {
    %0 = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false}>
        : (tensor<4x8xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x8xf32>
    return %0 : tensor<3x8xf32>
  }
}
// -----
module @dynamic_iota {
  func.func @main(%s: tensor<1xi32>) -> (tensor<?xf32>) {
    %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
// -----
module @dynamic_pad {
  func.func @main(%x: tensor<4xf32>, %v: tensor<f32>, %s: tensor<1xi32>) -> (tensor<?xf32>) {
    %0 = stablehlo.dynamic_pad %x, %v, %s, %s, %s
        : (tensor<4xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
// -----
module @dynamic_reshape {
  func.func @main(%x: tensor<4xf32>, %s: tensor<2xindex>) -> (tensor<?x2xf32>) {
    %0 = stablehlo.dynamic_reshape %x, %s : (tensor<4xf32>, tensor<2xindex>) -> tensor<?x2xf32>
    return %0 : tensor<?x2xf32>
  }
}
// -----
module @dynamic_slice {
  func.func @main(%x: tensor<4x8xf32>, %i: tensor<i32>) -> (tensor<2x8xf32>) {
    %0 = stablehlo.dynamic_slice %x, %i, %i, sizes = [2, 8]
        : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<2x8xf32>
    return %0 : tensor<2x8xf32>
  }
}
// -----
module @dynamic_update_slice {
  func.func @main(%x: tensor<4x8xf32>, %u: tensor<2x8xf32>, %i: tensor<i32>) -> (tensor<4x8xf32>) {
    %0 = stablehlo.dynamic_update_slice %x, %u, %i, %i
        : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
// -----
module @einsum {
  func.func @main(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) -> (tensor<2x4xf32>) {
    %0 = "stablehlo.einsum"(%x, %y) <{einsum_config = "ab,bc->ac"}>
        : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
// -----
module @fft {
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x5xcomplex<f32>>) {
    %0 = stablehlo.fft %x, type = RFFT, length = [8] : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>
    return %0 : tensor<4x5xcomplex<f32>>
  }
}
// -----
module @gather {
  func.func @main(%x: tensor<2x4x8xf32>, %i: tensor<2x3x1xi32>) -> (tensor<2x3x8xf32>) {
    %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
        collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
        start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 8>, indices_are_sorted = true}>
        : (tensor<2x4x8xf32>, tensor<2x3x1xi32>) -> tensor<2x3x8xf32>
    return %0 : tensor<2x3x8xf32>
  }
}
// -----
module @get_dimension_size {
  func.func @main(%x: tensor<4x?xf32>) -> (tensor<i32>) {
    %0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<4x?xf32>) -> tensor<i32>
    return %0 : tensor<i32>
  }
}
// -----
module @get_tuple_element {
  func.func @main(%t: tuple<tensor<4xf32>, tensor<i32>>) -> (tensor<i32>) {
    %0 = stablehlo.get_tuple_element %t[1] : (tuple<tensor<4xf32>, tensor<i32>>) -> tensor<i32>
    return %0 : tensor<i32>
  }
}
// -----
module @if {
  func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> (tensor<f32>) {
    %0 = "stablehlo.if"(%p) ({
      stablehlo.return %x : tensor<f32>
    }, {
      %n = stablehlo.negate %x : tensor<f32>
      stablehlo.return %n : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
// -----
module @imag {
  func.func @main(%x: tensor<4xcomplex<f32>>) -> (tensor<4xf32>) {
    %0 = stablehlo.imag %x : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @infeed {
  func.func @main(%t: !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token) {
    %0:2 = "stablehlo.infeed"(%t) <{infeed_config = "config", layout = [[0]]}>
        : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    return %0#0, %0#1 : tensor<4xf32>, !stablehlo.token
  }
}
// -----
module @iota {
  func.func @main() -> (tensor<4x5xi32>) {
    %0 = stablehlo.iota dim = 1 : tensor<4x5xi32>
    return %0 : tensor<4x5xi32>
  }
}
// -----
module @is_finite {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xi1>) {
    %0 = stablehlo.is_finite %x : (tensor<4xf32>) -> tensor<4xi1>
    return %0 : tensor<4xi1>
  }
}
// -----
module @map {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = "stablehlo.map"(%x, %x) <{dimensions = array<i64: 0>}> ({
    ^bb0(%lhs: tensor<f32>, %rhs: tensor<f32>):
      %sum = stablehlo.add %lhs, %rhs : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @optimization_barrier {
  func.func @main(%x: tensor<4xf32>, %y: tensor<i32>) -> (tensor<4xf32>, tensor<i32>) {
    %0:2 = stablehlo.optimization_barrier %x, %y : tensor<4xf32>, tensor<i32>
    return %0#0, %0#1 : tensor<4xf32>, tensor<i32>
  }
}
// -----
module @outfeed {
  func.func @main(%x: tensor<4xf32>, %t: !stablehlo.token) -> (!stablehlo.token) {
    %0 = "stablehlo.outfeed"(%x, %t) <{outfeed_config = "config"}>
        : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    return %0 : !stablehlo.token
  }
}
// -----
module @pad {
  func.func @main(%x: tensor<4xf32>, %v: tensor<f32>) -> (tensor<10xf32>) {
    %0 = stablehlo.pad %x, %v, low = [1], high = [2], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<10xf32>
    return %0 : tensor<10xf32>
  }
}
// -----
module @partition_id {
  func.func @main() -> (tensor<ui32>) {
    %0 = stablehlo.partition_id : tensor<ui32>
    return %0 : tensor<ui32>
  }
}
// -----
module @real {
  func.func @main(%x: tensor<4xcomplex<f32>>) -> (tensor<4xf32>) {
    %0 = stablehlo.real %x : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @real_dynamic_slice {
  func.func @main(%x: tensor<4xf32>, %i: tensor<1xi32>) -> (tensor<?xf32>) {
    %0 = stablehlo.real_dynamic_slice %x, %i, %i, %i
        : (tensor<4xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>
  }
}
// -----
module @recv {
  func.func @main(%t: !stablehlo.token) -> (tensor<4xf32>, !stablehlo.token) {
    %0:2 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 3>,
        is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    return %0#0, %0#1 : tensor<4xf32>, !stablehlo.token
  }
}
// -----
module @reduce {
  func.func @main(%x: tensor<4x8xf32>, %v: tensor<f32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.reduce(%x init: %v) applies stablehlo.maximum across dimensions = [1]
        : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %1:2 = stablehlo.reduce(%x init: %v), (%x init: %v) across dimensions = [0]
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {
      %s = stablehlo.add %a, %b : tensor<f32>
      %m = stablehlo.multiply %c, %d : tensor<f32>
      stablehlo.return %s, %m : tensor<f32>, tensor<f32>
    }
    return %0, %1#0, %1#1 : tensor<4xf32>, tensor<8xf32>, tensor<8xf32>
  }
}
// -----
module @reduce_precision {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = stablehlo.reduce_precision %x, format = e5m10 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @reduce_scatter {
  func.func @main(%x: tensor<4x4xf32>) -> (tensor<4x2xf32>) {
    %0 = "stablehlo.reduce_scatter"(%x) <{scatter_dimension = 1 : i64, replica_groups = dense<[[0, 1], [2,
        3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>,
        use_global_device_ids}> ({
    ^bb0(%lhs: tensor<f32>, %rhs: tensor<f32>):
      %sum = stablehlo.add %lhs, %rhs : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<4x4xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
}
// -----
module @reduce_window {
  func.func @main(%x: tensor<4x8xf32>, %v: tensor<f32>) -> (tensor<2x5xf32>) {
    %0 = "stablehlo.reduce_window"(%x, %v) <{window_dimensions = array<i64: 2, 3>, window_strides = array<i64: 2, 2>,
        base_dilations = array<i64: 1, 1>, window_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [1,
        2]]> : tensor<2x2xi64>}> ({
    ^bb0(%lhs: tensor<f32>, %rhs: tensor<f32>):
      %sum = stablehlo.add %lhs, %rhs : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<2x5xf32>
    return %0 : tensor<2x5xf32>
  }
}
// -----
module @replica_id {
  func.func @main() -> (tensor<ui32>) {
    %0 = stablehlo.replica_id : tensor<ui32>
    return %0 : tensor<ui32>
  }
}
// -----
module @reshape {
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<32xf32>) {
    %0 = stablehlo.reshape %x : (tensor<4x8xf32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>
  }
}
// -----
module @reverse {
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>) {
    %0 = stablehlo.reverse %x, dims = [0, 1] : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
// -----
module @rng {
  func.func @main(%a: tensor<f32>, %s: tensor<2xi64>) -> (tensor<3x3xf32>) {
    %0 = stablehlo.rng %a, %a, %s, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<3x3xf32>
    return %0 : tensor<3x3xf32>
  }
}
// -----
module @rng_bit_generator {
  func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>) {
    %0, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY
        : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    return %0, %1 : tensor<2xui64>, tensor<4xui32>
  }
}
// -----
module @scatter {
  func.func @main(%x: tensor<2x4x8xf32>, %i: tensor<2x3x1xi32>, %u: tensor<2x3x8xf32>) -> (tensor<2x4x8xf32>) {
    %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2],
        inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0],
        scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, indices_are_sorted = true, unique_indices = true}> ({
    ^bb0(%lhs: tensor<f32>, %rhs: tensor<f32>):
      %sum = stablehlo.add %lhs, %rhs : tensor<f32>
      stablehlo.return %sum : tensor<f32>
    }) : (tensor<2x4x8xf32>, tensor<2x3x1xi32>, tensor<2x3x8xf32>) -> tensor<2x4x8xf32>
    return %0 : tensor<2x4x8xf32>
  }
}
// -----
module @select {
  func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = stablehlo.select %p, %x, %x : tensor<i1>, tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @select_and_scatter {
  func.func @main(%x: tensor<4x6xf32>, %s: tensor<2x2xf32>, %v: tensor<f32>) -> (tensor<4x6xf32>) {
    %0 = "stablehlo.select_and_scatter"(%x, %s, %v) <{window_dimensions = array<i64: 3, 3>,
        window_strides = array<i64: 2, 3>, padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }, {^bb0(%lhs: tensor<f32>, %rhs: tensor<f32>):
    %sum = stablehlo.add %lhs, %rhs : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
}
// -----
module @send {
  func.func @main(%x: tensor<4xf32>, %t: !stablehlo.token) -> (!stablehlo.token) {
    %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>,
        is_host_transfer = false, source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    return %0 : !stablehlo.token
  }
}
// -----
module @set_dimension_size {
  func.func @main(%x: tensor<4xf32>, %s: tensor<i32>) -> (tensor<?xf32, #stablehlo.bounds<4>>) {
    %0 = stablehlo.set_dimension_size %x, %s, dim = 0
        : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
    return %0 : tensor<?xf32, #stablehlo.bounds<4>>
  }
}
// -----
module @slice {
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<2x4xf32>) {
    %0 = stablehlo.slice %x [1:3, 0:8:2] : (tensor<4x8xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }
}
// -----
module @sort {
  func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xi32>) -> (tensor<4x8xf32>, tensor<4x8xi32>) {
    %0:2 = "stablehlo.sort"(%x, %y) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %p = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }) : (tensor<4x8xf32>, tensor<4x8xi32>) -> (tensor<4x8xf32>, tensor<4x8xi32>)
    return %0#0, %0#1 : tensor<4x8xf32>, tensor<4x8xi32>
  }
}
// -----
module @torch_index_select {
  func.func @main(%x: tensor<5x2xf32>, %i: tensor<2xi32>) -> (tensor<2x2xf32>) {
    %0 = "stablehlo.torch_index_select"(%x, %i) <{dim = 0 : i64, batch_dims = 0 : i64}>
        : (tensor<5x2xf32>, tensor<2xi32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>
  }
}
// -----
module @transpose {
  func.func @main(%x: tensor<4x8xf32>) -> (tensor<8x4xf32>) {
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}
// -----
module @triangular_solve {
  func.func @main(%a: tensor<3x3xf32>, %b: tensor<3x2xf32>) -> (tensor<3x2xf32>) {
    %0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true,
        transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}>
        : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
    return %0 : tensor<3x2xf32>
  }
}
// -----
module @tuple {
  func.func @main(%x: tensor<4xf32>, %y: tensor<i32>) -> (tuple<tensor<4xf32>, tensor<i32>>) {
    %0 = stablehlo.tuple %x, %y : tuple<tensor<4xf32>, tensor<i32>>
    return %0 : tuple<tensor<4xf32>, tensor<i32>>
  }
}
// -----
module @unary_einsum {
  func.func @main(%x: tensor<2x3xf32>) -> (tensor<2xf32>) {
    %0 = "stablehlo.unary_einsum"(%x) <{einsum_config = "ab->a"}> : (tensor<2x3xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
// -----
module @while {
  func.func @main(%i: tensor<i32>, %x: tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>) {
    %n = stablehlo.constant dense<10> : tensor<i32>
    %0:2 = stablehlo.while(%a = %i, %b = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %a, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %k = stablehlo.add %a, %one : tensor<i32>
      %y = stablehlo.add %b, %b : tensor<4xf32>
      stablehlo.return %k, %y : tensor<i32>, tensor<4xf32>
    }
    return %0#0, %0#1 : tensor<i32>, tensor<4xf32>
  }
}
// -----
module @composite {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = stablehlo.composite "chlo.erf" %x {composite_attributes = {n = 1 : i64, flag = true}, decomposition = @erf,
        version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @erf(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @call {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @inner(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    return %x : tensor<4xf32>
  }
}
// -----
module @result_accuracy {
  func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    %0 = stablehlo.exponential %x {result_accuracy = #stablehlo.result_accuracy<atol = 1.000000e-05,
        rtol = 0.000000e+00, ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
// -----
module @sharded attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "yy"=4]>
  sdy.mesh @one = <[], device_ids=[5]>
  sdy.mesh @permuted = <["x"=8], device_ids=[1, 3, 2, 0, 4, 5, 6, 7]>
  func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {"yy":(1)2}p3]>},
      %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], replicated={"x"},
      unreduced={"yy":(2)2}>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<mesh<["a"=2]>, [{"a"}, {}]>}) {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"},
        {"yy"}]>] manual_axes={"x", "yy"} (%shard: tensor<4x8xf32>) {
      %s = stablehlo.slice %shard [0:4, 0:2] : (tensor<4x8xf32>) -> tensor<4x2xf32>
      sdy.return %s : tensor<4x2xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %sums = sdy.manual_computation(%0) in_shardings=[<@mesh, [{}, {"yy"}], unreduced={"x"}>] out_shardings=[<@mesh,
        [{"x"}, {}], unreduced={"yy"}>] manual_axes={"x", "yy"} (%shard: tensor<8x2xf32>) {
      %s = stablehlo.reshape %shard : (tensor<8x2xf32>) -> tensor<4x4xf32>
      %c = stablehlo.concatenate %s, %s, dim = 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
      sdy.return %c : tensor<4x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = sdy.sharding_constraint %sums <@mesh, [{"x"}, {?}]> : tensor<8x8xf32>
    %2 = sdy.reshard %1 <@mesh, [{"x"}, {}]> : tensor<8x8xf32>
    %3 = stablehlo.add %2, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>} : tensor<8x8xf32>
    return %3 : tensor<8x8xf32>
  }
}
