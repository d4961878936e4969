"""Which tests are slow: `make test` leaves them out, `make test-all` runs them, too.

The fast tier runs every runtime, mode and command for real, and one row of each operator. The tests listed here
repeat that on more networks, cheats, faults and moments, or take long. A new test is fast until it is listed.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import pytest


@dataclass(frozen=True)
class Chosen:
    """The parameters of a test, as pytest writes them, that begin with one of `beginnings`; or all `others`."""

    beginnings: tuple[str, ...] = ("",)
    others: bool = False

    def __contains__(self, parameters: str) -> bool:
        return any(begins(parameters, each) for each in self.beginnings) != self.others


def begins(parameters: str, words: str) -> bool:
    """`torch` begins `torch-forward`, and not `torch_compile-forward`."""
    return not words or re.match(re.escape(words) + r"(?!\w)", parameters) is not None


every = Chosen()


def only(*beginnings: str) -> Chosen:
    return Chosen(beginnings)


def but(*beginnings: str) -> Chosen:
    return Chosen(beginnings, others=True)


BIG = only(
    "vgg11",
    "vgg16",
    "vgg19",
    "gpt2",
    "overfeat_fast",
    "fcn_s",
    "fcn8_s",
    "alexnet_s",
    "alexnet_bvlc",
    "alexnet_owt",
    "resnet101",
    "resnet152",
    "resnet50_features",
    "vit_s16",
    "densenet121",
    "densenet121_cxr",
)
SLOW: dict[str, dict[str, Chosen]] = {
    "torch_operators": {
        "test_the_exported_network_has_the_results_and_gradients_of_the_module": but("cross_entropy", "cdist", "fmax")
    },
    "loss_function": {"test_a_module_trains_by_a_loss_of_its_users": but("Net-focal")},
    "torch_export": {"test_it_computes_a_network_of_pytorch_and_a_file": only("torch_export")},
    "versions": {"test_two_versions_are_proved_and_timed_side_by_side": every, "test_what_fails_leaves_nothing": every},
    "judge": {
        "test_a_script_that_knows_no_xbench_gets_the_verdict_of_check": but("lenet"),
        "test_node_is_judged": every,
        "test_a_browser_is_judged": every,
        "test_a_program_in_cpp_is_judged": every,
    },
    "shape_sweep": {"test_a_recompiling_runtime_shows_it_in_the_first_call_and_a_wrong_length_fails": every},
    "low_bits": {"test_runtimes_are_right_in_float32": but("blocks-INT4")},
    "narrow_files": {
        "test_every_runtime_is_judged_on_a_file_of_float16": but("images-False"),
        "test_what_another_network_gives_fails": but("a weight 2 % larger"),
    },
    "like": {
        "test_a_fault_is_named_at_its_node_and_a_right_file_names_nobody": but("random 1", "random 3"),
        "test_a_file_of_a_network_whose_norms_were_folded_names_nobody": every,
        "test_a_layer_that_overflows_float16_is_named": every,
        "test_a_scale_of_weights_of_four_bits_is_named": every,
        "test_a_scale_that_is_none_is_named": but("2.weight_scale-nan"),
        "test_hostile_names_stay_text": but("markup"),
    },
    "like_parts": {"test_a_graph_without_integers_computes_the_same": but("random 2")},
    "evaluate_like": {
        "test_equal_answers_of_few_samples_show_nothing_about_the_original": every,
        "test_inputs_and_outputs_of_other_names_are_matched_by_position": every,
        "test_a_worse_file_fails": every,
        "test_hostile_names_stay_text": but("markup"),
    },
    "contrib": {
        "test_a_body_computes_what_the_kernel_of_onnx_runtime_does": but("17"),
        "test_a_network_that_onnx_runtime_has_optimised_passes": every,
    },
    "blocked": {"test_a_file_in_blocks_is_the_network_it_was_made_from": but("a sum", "turned and back")},
    "rewritten_forms": {
        "test_the_right_file_passes_in_every_form": every,
        "test_every_wrong_number_fails": every,
    },
    "decoder_layer": {"test_a_layer_passes_on_runtimes_that_know_its_operators_and_that_do_not": but("a step")},
    "learning": {
        "test_a_forest_passes_on_runtimes_that_know_trees_and_that_do_not": every,
        "test_a_body_computes_what_the_kernel_of_onnx_runtime_does": but("18"),
        "test_a_body_of_features_computes_what_the_kernel_of_onnx_runtime_does": but("18"),
    },
    "hub": {
        "test_the_length_of_a_text_is_given": every,
        "test_weights_are_an_option_of_every_command": every,
    },
    "modules": {
        "test_a_gradient_that_no_graph_has_is_not_verified": every,
        "test_a_selection_that_is_empty_is_not_taken_for_a_full_one": every,
        "test_one_refusal_does_not_keep_others_from_being_checked": every,
        "test_modules_are_checked_as_they_are": every,
        "test_more_modules_are_checked_as_they_are": every,
        "test_modules_are_trained_as_they_are": every,
        "test_networks_of_transformers_pass_as_they_come": every,
        "test_what_training_does_otherwise_is_not_trained": every,
        "test_what_is_left_out_is_said_once": every,
    },
    "kit": {
        "test_a_cheat_is_told_on_the_command_line_and_gets_no_time": every,
        "test_our_adapters_pass_in_every_mode": every,
        "test_an_adapter_that_cheats_is_caught_and_named": only(
            "Lazy",
            "Swapped",
            "LastInputs",
            "Bfloat16",
            "LastBit",
            "Early",
            "Ahead",
            "ByValue",
            "ByIdentity",
            "ByPlace",
            "ThroughHost",
            "Elsewhere",
            "Greedy",
            "Spinning",
            "Slowing",
            "TwoOfThree",
            "LateByValue",
            "LateLazy",
            "LateEarly",
            "LateBfloat16",
            "Tf32",
            "Random",
            "NotFinite",
        ),
        "test_a_strangers_package_is_listed_and_passes": every,
        "test_no_honest_runtime_is_blamed_for_an_unusual_network": every,
        "test_an_adapter_that_breaks_down_is_told_in_one_finding": only("fault_hangs"),
    },
    "timed": {
        "test_an_adapter_that_trains_less_while_it_is_timed_is_caught_and_named": but("FirstGradient", "EveryOther"),
        "test_a_cheat_gets_no_time_and_the_others_get_theirs": every,
        "test_an_honest_trainer_passes": but("gradient-norm"),
        "test_an_honest_runtime_passes_with_dropout_and_batchnorm": every,
        "test_what_looks_wrong_beside_a_few_draws_is_compared_with_more": every,
        "test_of_thirty_other_draws_all_pass": every,
    },
    "runtimes": {
        "test_a_runtime_computes_the_network": only(
            "lenet-torch_compile-gradient",
            "lenet-torch_compile-step",
            "lenet-tvm-gradient",
            "lenet-tvm-step",
            "lenet-tensorflow:xla",
            "lenet-tensorflow-gradient",
            "small_nets",
        ),
        "test_ten_steps_on_real_digits_lower_the_loss": every,
        "test_all_trainers_learn_the_same": every,
        "test_a_trainer_evaluates_with_the_weights_of_the_moment": but("torch"),
        "test_dropout_drops_its_share_and_scales_up_the_rest": every,
        "test_a_module_that_other_code_converted_is_another_artifact": every,
        "test_a_framework_of_its_own_does_without_torch": every,
        "test_what_our_adapter_needs_is_not_in_the_load_of_a_runtime": only("tvm"),
        "test_a_runtime_computes_a_file_with_batch_normalization": only("tvm", "tensorflow"),
    },
    "source": {
        "test_a_broken_keras_file_is_one_line": every,
        "test_a_network_with_long_arguments_is_checked": every,
        "test_what_cannot_be_trained_is_named": only("mynet:Determined"),
        "test_what_other_peoples_modules_do_is_the_same_everywhere": every,
        "test_an_onnx_file_trains_alike_where_that_is_asked_for": every,
        "test_a_file_without_weights_runs_everywhere": every,
        "test_a_tensorflow_model_comes_in_through_tf2onnx": every,
        "test_a_graph_that_is_not_the_module_is_no_fault_of_runtimes": every,
        "test_a_factory_that_makes_no_network_is_one_line": but("nomodule:make"),
        "test_dynamic_axes_are_asked_for_and_given": every,
        "test_a_factory_is_checked_and_trained": every,
    },
    "strange": {
        "test_each_costs_its_own_cell_alone": every,
        "test_other_commands_go_on_as_well": every,
        "test_a_check_goes_on_as_well": every,
        "test_a_bisection_of_one_ends_in_one_line": every,
        "test_a_profile_and_what_it_is_told_of_layers": every,
        "test_a_conversion_to_its_own_form": every,
    },
    "since": {
        "test_the_release_that_is_slower_first_is_named": every,
        "test_nothing_is_found_where_nothing_is_wrong": every,
        "test_the_release_that_crashes_first_is_named": every,
        "test_a_damaged_store_ends_the_search": every,
        "test_there_is_no_script_for_what_it_would_not_show": every,
    },
    "session": {
        "test_records_hold_what_the_documentation_says": every,
        "test_a_slow_step_is_recorded_though_its_budget_is_too_small": every,
        "test_a_finished_run_times_nothing_again_and_starts_no_worker": every,
        "test_one_wrong_output_of_two_fails_and_is_named": but("fault_wrong_first"),
        "test_a_failed_cell_is_never_ranked": every,
        "test_a_runtime_word_may_hold_any_characters": every,
        "test_a_ratio_is_the_median_over_the_common_rounds": every,
        "test_a_full_disk_is_one_line_and_what_was_measured_stays": every,
        "test_rerun_times_everything_again_and_retry_only_what_failed": every,
        "test_every_fault_is_recorded_and_the_others_are_timed": every,
        "test_every_process_of_a_cell_is_proved_warmed_and_timed": every,
        "test_what_convert_computed_of_the_oracle_time_does_not_compute_again": every,
        "test_a_process_that_fails_behind_others_is_no_time": every,
        "test_a_cell_whose_model_was_damaged_is_timed_when_it_was_made_again": every,
        "test_another_batch_and_another_number_of_threads_are_other_cells": every,
        "test_a_block_that_others_disturb_is_run_again_and_then_told": every,
        "test_a_runtime_of_another_python_stands_beside_ours": every,
        "test_a_record_names_the_command_that_measures_it_again": every,
        "test_a_file_that_is_no_model_does_not_stop_the_models_behind_it": every,
    },
    "study": {
        "test_phases_of_who_cannot_train_are_unsupported_and_say_why": every,
        "test_runtimes_tell_of_the_layers_that_they_run": every,
        "test_a_study_that_was_killed_goes_on_where_it_was": every,
        "test_phases_need_samples_that_can_be_stored": every,
        "test_the_layer_that_takes_longest_is_the_one_that_was_made_slow": every,
        "test_phases_are_what_each_part_of_an_iteration_takes": every,
    },
    "time_cheats": {
        "test_an_adapter_whose_time_cannot_be_is_caught_and_gets_none": but("StillClock"),
        "test_what_is_faster_than_the_machine_is_called_so": only("Tired"),
    },
    "kill_moments": {
        "test_what_is_killed_leaves_a_valid_store_and_nothing_else": every,
    },
    "kill": {"test_kill_at_20_random_moments_loses_no_finished_cell": every},
    "scaling": {
        "test_with_batch_normalization_the_reference_is_the_mean_of_shards": every,
        "test_a_worker_that_ends_or_hangs_is_one_line_and_ends_all": every,
        "test_an_end_at_any_moment_leaves_no_process": every,
    },
    "load": {
        "test_a_runtime_that_breaks_down_is_told_of_every_scenario": but("fault_lacks"),
        "test_a_query_that_waits_is_not_quick": every,
        "test_the_runtime_stays_in_its_thread_on_its_cpus": every,
    },
    "cli": {
        "test_show_answers_with_rows_in_every_form": every,
        "test_what_passed_a_check_is_not_checked_again_and_what_failed_is": every,
        "test_tvm_trains_only_where_it_is_asked_to": every,
        "test_doctor_names_what_is_missing_and_its_command": every,
        "test_cuda_without_a_gpu_is_one_line": every,
        "test_more_threads_than_cpus_warns_and_goes_on": every,
    },
    "export": {
        "test_an_exported_network_has_its_parameters_and_work_and_no_debris": but("lenet"),
        "test_one_file_serves_every_batch": but("lenet"),
        "test_recurrent_weights_keep_their_names_and_gates": but("lstm_bidirectional"),
        "test_the_operators_read_from_a_tables_source_are_those_the_table_has": every,
    },
    "train": {
        "test_a_network_without_parameters_is_one_line": every,
        "test_what_is_final_outlives_an_interruption": every,
        "test_dropout_is_off_but_where_it_is_asked_for": every,
        "test_a_network_whose_loss_is_no_number_from_the_first_step_on": every,
        "test_a_check_of_many_steps_names_the_first_wrong_loss": every,
    },
    "assert": {
        "test_a_file_of_other_weights_is_not_the_module": every,
        "test_the_module_is_left_as_it_is_and_nothing_is_kept": every,
        "test_a_layer_of_parametrized_weights_is_compared_and_left_as_it_is": every,
        "test_weights_are_compared_whatever_shape_they_are_read_in": every,
        "test_a_project_whose_conversion_is_right_passes": every,
        "test_a_fault_in_the_exported_file_is_named": every,
        "test_classes_that_no_other_process_can_import_travel_by_value": every,
        "test_a_fault_of_a_runtime_is_named": every,
    },
    "gpu": {"test_the_report_is_made_with_whatever_runtime_there_is": only("240-True")},
    "bisect": {
        "test_a_planted_fault_is_found_by_the_smallest_part_that_shows_it": every,
        "test_a_fault_at_a_random_node_is_found_by_that_node_alone": every,
        "test_the_script_ends_with_0_when_the_difference_is_gone": every,
        "test_a_right_file_in_half_precision_differs_nowhere": but("float16"),
        "test_a_fault_in_half_precision_is_found_by_its_node": every,
    },
    "evaluate_axes": {
        "test_the_metric_is_that_of_a_plain_script": but("an image and a sequence"),
        "test_an_output_without_the_axis_of_samples_has_one_value_for_each": every,
        "test_check_and_int8_take_such_samples": every,
        "test_it_is_deployed_whatever_its_batch": every,
    },
    "bisect_samples": {
        "test_a_difference_that_only_one_batch_shows_is_found_on_that_batch": every,
        "test_the_script_has_the_sample": but("mine"),
        "test_a_precision_that_only_some_samples_exceed": every,
        "test_gradients_are_those_of_the_samples_and_their_labels": every,
    },
    "damage": {
        "test_a_model_that_is_damaged_again_and_again_is_not_measured_for_ever": every,
        "test_no_damage_is_a_fault_of_a_runtime": every,
        "test_what_is_damaged_is_made_again": every,
        "test_no_changed_text_is_run": every,
        "test_two_processes_mend_the_same_at_once": every,
    },
    "proof": {"test_rows_stand_in_the_order_asked_for_each_with_its_own_outcome": every},
    "precision": {
        "test_gradients_lose_what_their_precision_loses_and_no_more": every,
        "test_every_runtime_computes_in_what_it_has_and_the_others_say_so": every,
        "test_a_training_step_in_bfloat16_is_proved_and_timed_as_such": every,
        "test_a_wrong_word_is_one_line": every,
    },
    "node_suite": {"test_a_table_passes_the_core_row": every},
    "walk": {"test_a_reader_crosses_few_modules": every},
    "contributing": {
        "test_the_runtime_is_proved_and_timed": every,
        "test_the_command_and_the_operator_are_there": every,
        "test_the_rules_of_the_house_hold": every,
    },
    "docs": {
        "test_a_guide_prints_what_it_says": but("reproduce"),
        "test_the_site_is_made_without_a_warning": every,
    },
    "layout": {
        "test_channels_last_computes_what_onnx_says": but("jax-Conv", "tensorflow-Conv"),
        "test_channels_last_has_the_gradients_of_pytorch": every,
        "test_kernels_are_kept_in_the_order_of_the_framework_and_given_back_in_onnx_order": every,
        "test_auto_chooses_the_layout_that_was_faster_and_says_so": every,
        "test_transposes_stand_at_the_borders_only": but("alexnet_cifar", "cifar_vgg"),
        "test_matrices_of_linear_layers_are_turned_where_nothing_else_reads_them": every,
    },
    "every_mistake": {
        "test_every_mistake_of_an_operator_is_named": every,
        "test_every_mistake_of_a_training_step_is_named": every,
    },
    "pipelines": {"test_the_steps_of_the_workflow_run": every},
    "limits": {
        "test_a_factory_that_never_ends_is_ended": only("time"),
        "test_an_oracle_that_never_ends_is_ended": every,
    },
    "kernels": {"test_a_first_call_that_finds_kernels_is_told_with_the_one_that_made_them": every},
    "explain": {
        "test_the_command_says_what_a_failure_looks_like": every,
        "test_a_mistake_is_caught_and_named": but("bn_momentum", "keras_adam"),
        "test_what_is_right_is_never_blamed": only("mistaken"),
        "test_what_a_mistake_itself_rounds_is_no_reason_against_it": every,
    },
    "torch_dropout": {
        "test_a_compiled_layer_drops_its_share_and_scales_up_the_rest": every,
        "test_compiled_dropout_is_switched": every,
        "test_a_layer_is_compiled_once": every,
    },
    "round_trip": {"test_a_network_comes_back_as_the_same": but("lenet-tf2onnx")},
    "real_models": {
        "test_a_runtime_holds_the_weights_of_the_file": but(
            "onnxruntime-magika", "onnxruntime-direction", "openvino-magika", "torch-magika", "jax-magika"
        ),
        "test_a_file_computes_the_same_on_every_runtime": but(
            "torch-magika", "onnxruntime-magika", "onnxruntime-direction", "openvino-magika"
        ),
    },
    "match": {
        "test_a_faithful_port_is_the_network": every,
        "test_a_port_that_is_another_network_is_rejected_with_the_reason": but("Transposed"),
    },
    "originals": {
        "test_keras_computes_lenet_by_its_layers": but("tensorflow-step"),
        "test_keras_does_not_train_what_is_a_constant_of_the_graph": but("tensorflow"),
        "test_statistics_and_dropout_are_those_of_the_network": every,
        "test_an_operator_that_is_missing_is_named": every,
    },
    "inspect": {
        "test_an_operator_that_nobody_knows_is_shown_and_stops_everybody": every,
        "test_ten_thousand_nodes": every,
        "test_files_that_others_made_agree_with_their_conversion": but("magika"),
        "test_what_it_says_of_runtimes_is_what_convert_says": every,
    },
    "recommend_samples": {
        "test_it_is_measured_on_the_samples_and_again_when_they_are_others": every,
    },
    "evaluate_plain": {"test_the_metric_is_that_of_a_plain_script": every},
    "evaluate": {"test_int8_is_made_by_the_runtimes_own_tool": but("openvino")},
    "torch_int8": {"test_inductor_has_kernels_of_int8_for_it": every},
    "int4": {"test_a_transformer_is_verified_with_weights_of_four_bits": every},
    "deployment_lower": {
        "test_the_folder_computes_the_metric_that_was_evaluated": but("onnxruntime"),
        "test_without_an_evaluation_it_is_calibrated_on_the_samples_that_were_timed": every,
        "test_the_samples_of_calibrate_are_those_of_the_evaluation": every,
        "test_an_interrupted_deployment_leaves_nothing": every,
        "test_litert_is_calibrated_on_every_sample_whatever_its_own_size": but("1"),
    },
    "deployment": {
        "test_it_runs_in_an_environment_of_its_requirements_alone": but("onnxruntime"),
        "test_the_other_forms_run_here": every,
    },
    "models": {
        "test_parameters_are_the_published_number": BIG,
        "test_outputs_depend_on_the_inputs_and_not_on_biases_alone": BIG,
        "test_training_starts_near_chance": BIG,
        "test_evaluation_neither_fades_nor_blows_up": BIG,
        "test_no_two_tensors_start_equal_and_none_is_constant": BIG,
        "test_macs_are_what_pytorch_counts": BIG,
        "test_activations_and_poolings_are_the_published_ones": BIG,
        "test_outputs_are_what_the_loss_compares_with_the_labels": BIG,
    },
    "tuning": {
        "test_tvm_is_tuned_by_its_own_tuner_and_still_the_same_network": every,
        "test_off_is_told_and_who_has_nothing_says_so": every,
    },
    "planted_faults": {
        "test_a_fault_is_unranked_and_its_first_wrong_tensor_is_named": every,
        "test_the_exit_code_is_one_and_the_honest_runtime_is_ranked": every,
    },
    "report_browser": {
        "test_the_matrix_opens_to_the_worst_tensor": every,
        "test_a_phone_scrolls_tables_and_not_the_page": every,
        "test_tables_are_sorted_by_what_they_show": every,
        "test_filters_choose_within_the_one_table_of_very_many_networks": every,
        "test_filters_leave_what_they_say": every,
        "test_ten_thousand_records_answer_within_three_seconds": every,
        "test_both_schemes_are_legible": every,
        "test_paper_has_all_of_it_in_black_on_white": every,
    },
    "report": {
        "test_records_of_any_shape_are_below_eight_megabytes": but("a network two records"),
        "test_ten_thousand_records_are_below_eight_megabytes": every,
    },
    "compare": {
        "test_of_what_is_said_to_be_slower_at_most_one_in_twenty_is_not": every,
        "test_of_stores_that_do_not_differ_hardly_any_is_said_to": only("3"),
    },
    "worker": {
        "test_what_looks_broken_is_measured_again_in_many_rounds": every,
    },
    "artifact": {
        "test_macs_are_the_same_where_shapes_must_be_inferred": only("imdb_gru"),
    },
    "steps": {
        "test_the_sides_that_right_kernels_take_are_right_ones": but("residual"),
        "test_an_int8_sum_with_another_scale_or_zero_point_is_another_network": every,
    },
    "wrong_uses": {
        "test_a_wrong_use_of_an_input_fails": but("Bert"),
        "test_a_wrong_use_of_an_input_of_a_transformer_fails": every,
    },
    "forms": {
        "test_a_saved_model_takes_inputs_whatever_they_are_called": every,
        "test_a_form_is_written_and_runs": but("onnxruntime", "torch"),
    },
    "standalone": {"test_a_standalone_file_computes_what_onnx_says": but("torch")},
    "standalone_training": {
        "test_a_standalone_file_trains_as_pytorch_does": every,
    },
    "plugins": {
        "test_one_that_claims_to_train_and_one_that_claims_a_table_of_ours_are_tried": every,
        "test_nothing_in_a_row_or_an_adapter_excuses_it": every,
    },
    "cost": {
        "test_what_can_be_printed_of_a_real_run": every,
    },
    "foreign": {"test_what_is_no_file_is_neither_read_nor_written": but("a pipe", "a link to a file")},
    "given": {"test_what_a_runtime_refuses_is_recorded_in_its_own_words": every},
    "hostile": {
        "test_two_thousand_mutations_are_read_or_refused": every,
    },
    "fusion": {
        "test_it_has_the_gradients_of_the_graph_as_it_was": every,
    },
}
# A test that uses one of these, which run a command over many runtimes, is slow.
FIXTURES = {"scaling": "scaled", "train": "trained"}
ROWS = ("operators", "standalone", "layout", "gradient", "node_by_node")  # one row per operator of these is fast


def is_slow(item: pytest.Item) -> bool:
    file, test, parameters = _parts(item)
    call = getattr(item, "callspec", None)
    if file in ROWS and call and "index" in call.params and call.params["index"] != telling(call.params["op"]):
        return True
    if FIXTURES.get(file) in getattr(item, "fixturenames", ()):
        return True
    return test in SLOW.get(file, {}) and parameters in SLOW[file][test]


@cache
def telling(operator: str) -> int:
    """The first row of an operator with the most attributes: a forgotten default shows there."""
    from cases import CASES

    return max(range(len(CASES[operator][:3])), key=lambda index: len(CASES[operator][index].attributes))


UNKNOWN = pytest.StashKey[list[str]]()  # what `unknown` found in this run


def unknown(items: Iterable[pytest.Item]) -> Iterator[str]:
    """Listed entries that match none of the collected tests."""
    known: dict[tuple[str, str], list[str]] = {}
    for item in items:
        file, test, parameters = _parts(item)
        known.setdefault((file, test), []).append(parameters)
    for file, tests in SLOW.items():
        for test, chosen in tests.items():
            own = known.get((file, test))
            for beginning in chosen.beginnings if own else ():
                if not any(begins(parameters, beginning) for parameters in own or ()):
                    yield f"{test} of {file} has no parameters {beginning!r}"


def _parts(item: pytest.Item) -> tuple[str, str, str]:
    """The file, the test, and its parameters."""
    call = getattr(item, "callspec", None)
    return item.path.stem.removeprefix("test_"), getattr(item, "originalname", item.name), call.id if call else ""
