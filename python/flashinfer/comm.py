# SPDX-License-Identifier: Apache-2.0
"""Communication among devices. Still to come: calls raise NotImplementedError."""
from ._pending import pending_names

pending_names(globals(), functions="""
    create_shared_buffer free_shared_buffer pack_strided_memory
    create_allreduce_fusion_workspace allreduce_fusion
    trtllm_create_ipc_workspace_for_all_reduce trtllm_custom_all_reduce
    trtllm_create_ipc_workspace_for_all_reduce_fusion
    trtllm_destroy_ipc_workspace_for_all_reduce
    trtllm_destroy_ipc_workspace_for_all_reduce_fusion trtllm_allreduce_fusion
    trtllm_moe_allreduce_fusion trtllm_moe_finalize_allreduce_fusion trtllm_lamport_initialize
    trtllm_lamport_initialize_all compute_fp4_swizzled_layout_sf_size vllm_init_custom_ar
    vllm_all_reduce vllm_dispose vllm_register_buffer vllm_register_graph_buffers
    vllm_get_graph_buffer_ipc_meta vllm_meta_size moe_a2a_initialize moe_a2a_dispatch
    moe_a2a_combine moe_a2a_sanitize_expert_ids moe_a2a_get_workspace_size_per_rank
    moe_a2a_wrap_payload_tensor_in_workspace quantized_all_reduce all_gather_matmul
    init_ulysses_a2a ulysses_a2a dispose_ulysses_a2a
""", classes="""
    CudaRTLibrary Mapping AllReduceFusionWorkspace TRTLLMAllReduceFusionWorkspace
    MNNVLAllReduceFusionWorkspace MoeAlltoAll PcieIpcAllReduceWorkspace UlyssesCommunicator
""")
