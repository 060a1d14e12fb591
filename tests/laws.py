"""Which tests hold which law of docs/guides/concepts.md: the first to read, and to run, for somebody who changes what a law speaks of.

Each line is a module of tests (`array` is tests/core/test_array.py), and those of its tests that hold the law most directly. Most other tests
hold laws 2, 3 and 5 too, each for its operation. tests/house/test_laws.py checks that the laws are those of the documentation and that these
tests exist and are a part of `make test`.
"""

from __future__ import annotations

LAWS: dict[tuple[int, str], dict[str, str]] = {
    (1, "Names, not numbers"): {
        "array": "operators a_result_follows_its_first_operand square_axes_are_not_confused a_position_is_no_name",
        "elementwise": "a_name_that_both_have_is_one_axis_in_any_order unary binary"
        " positional_axes_meet_from_the_right_whatever_names_stand_between",
        "axes": "named_speaks_of_positions_of_a_named_array positional_puts_names_where_they_are_asked nmap_sees_positions_only",
        "einsum": "positional physical_orders",
        "dot": "physical_orders positional_axes_of_size_one",
    },
    (2, "Resources never change meaning"): {
        "raw_dimensions": "entries_along_a_sharded_dimension_are_not_combined what_acts_along_other_dimensions_passes",
        "weak_types": "weak_types_do_not_depend_on_the_placement",
        "special_values": "what_moves_has_the_same_bits what_computes_has_the_same_infinities",
        "operations": "operation",
        "arrivals": "sharded_over_axes_that_nobody_maps",
        "explicit_axes": "operation functions_of_the_user_are_called_each_time",
        "resources": "the_gradient_outside_of_the_body the_order_of_devices_does_not_matter",
        "reductions": "placements gradients_inside_of_the_body",
        "elementwise": "placements",
        "einsum": "in_every_placement",
        "random": "the_numbers_do_not_depend_on_the_assignment",
        "serial_loop": "everywhere programs",
        "axes": "named_in_a_body positional_in_a_body",
        "environment": "one_helper_under_two_assignments_with_equal_local_shapes an_array_that_a_body_closes_over_is_global",
        "transformations": "outside inside",
        "uneven": "every_operation_is_right_or_says_so sizes attention rows_that_move",
        "uneven_steps": "programs gradient_accumulation",
        "cotangents": "of_vjp of_rules",
    },
    (3, "An axis is an axis"): {
        "operations": "operation",
        "explicit_axes": "operation",
        "surface": "takes_named_arrays every_name_resolves exceptions_and_samples_are_not_stale",
        "reductions": "eager extrema_with_index special_values",
        "collectives": "placements",
        "gathers": "values_and_gradients",
        "getitem": "reads_as_jnp_does",
        "updates": "updates_as_jnp_does",
        "sorting": "sort_in_every_placement",
        "scans": "every_scan_in_every_placement",
        "control_flow": "programs",
        "neighbours": "neighbours convolutions",
        "pytree": "vmap_strips_and_adds_a_leading_position scan_over_a_position_with_a_named_carry",
    },
    (4, "Placement is visible"): {
        "placement": "values_vary_over_the_mesh_axes_of_their_names no_communication communication_where_the_program_says_so"
        " a_body_sees_blocks_of_data_and_global_sizes_of_names",
        "xmap": "results_are_placed two_names_on_one_mesh_axis_that_never_meet",
        "explicit_axes": "a_result_is_cut_as_its_names_say",
        "environment": "named_shape_is_global_and_data_is_local two_names_on_one_mesh_axis",
        "array": "repr_shows_where_an_array_lies",
    },
    (5, "No communication is wasted"): {
        "gathered_forms": "values_gradients_and_what_is_sent",
        "communication": "as_the_oracle forward parameters_only gradient_of_a_parameter returned_as_replicated",
        "collectives": "costs_of_reductions costs_of_softmax an_unsharded_axis_costs_nothing",
        "gathers": "what_is_sent",
        "gathers_in_steps": "a_step_gathers_what_a_step_by_hand_gathers",
        "kept_blocks": "one_all_gather what_varies_already_is_reduced_once",
        "overlap": "costs",
        "rename_on_read": "as_by_hand",
        "postponing": "values_gradients_and_bytes",
        "oracles": "value_gradient_and_communication",
    },
    (6, "An array without names is just an array"): {
        "array": "nothing_named_left_is_a_plain_array an_array_without_names_converts",
        "reductions": "an_array_without_names_is_just_an_array",
        "elementwise": "an_array_without_names_is_just_an_array",
        "einsum": "plain_arrays_come_back",
        "random": "without_names_it_is_jax",
        "pytree": "one_leaf value_and_grad_with_aux",
    },
    (7, "Errors name the names"): {
        "errors": "operands reductions renaming_taking_and_making contractions collectives mapped_functions"
        " an_error_is_reported_at_the_line_that_made_it every_message_begins_with_its_operation suggestions",
        "mistakes": "positional_functions_report_what_they_got other_mistakes",
        "names_alone": "an_operation_along_an_axis_asks_for_it",
        "words_of_jax": "a_value_that_is_not_known_is_said_to_be_the_users arguments_that_do_not_match_the_signature",
        "migration_hints": "every_word_of_others_has_one_of_ours",
        "explicit_axes": "two_names_on_one_mesh_axis one_name_in_two_places",
        "raw": "raw_collectives_say_nx_lax raw_reductions_of_a_block_are_refused",
        "reductions": "mistakes",
        "surprises": "an_index_over_all_axes_requires_an_order a_mask_adds_no_positions",
        "uneven": "operations_without_support_for_padding_raise",
    },
    (8, "Only public JAX"): {
        "public_jax": "public_only the_check_finds_what_it_looks_for no_monkey_patching",
    },
}
