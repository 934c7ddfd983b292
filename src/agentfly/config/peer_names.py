"""Names that trl, verl, transformers, peft and vLLM give to settings, with ours for each."""

_NAMES = {
    "name": "run_name experiment_name",
    "folder": "output_dir save_dir default_local_dir logging_dir",
    "model.name": "model_name model_name_or_path model_path model_id pretrained base_model",
    "model.precision": "torch_dtype dtype bf16 fp16",
    "model.gradient_checkpointing": "use_gradient_checkpointing activation_checkpointing",
    "model.lora": "use_lora use_peft peft_config lora",
    "model.lora.rank": "lora_r lora_rank lora_dim",
    "model.lora.alpha": "lora_alpha",
    "model.lora.targets": "target_modules lora_target_modules",
    "engine.name": "use_vllm rollout_backend inference_engine",
    "engine.urls": "vllm_server_base_url server_url base_url vllm_server_host",
    "algorithm.name": "adv_estimator advantage_estimator algo loss_type",
    "algorithm.kl.coefficient": "kl_coef kl_coeff beta kl_beta kl_loss_coef init_kl_coef kl_ctl",
    "algorithm.clip": "epsilon epsilon_high clip_range cliprange clip_ratio eps_clip clip_eps",
    "algorithm.entropy_coefficient": "entropy_coef entropy_coeff entropy_beta",
    "algorithm.discount": "gamma",
    "algorithm.trace": "lam lmbda gae_lambda lambda_gae",
    "rollout.num_chains": "num_generations group_size rollout_n n_samples num_return_sequences "
    "samples_per_prompt n_samples_per_prompt num_samples num_rollouts",
    "rollout.tasks_per_step": "batch_size train_batch_size per_device_train_batch_size "
    "rollout_batch_size generation_batch_size prompts_per_step global_batch_size gen_batch_size",
    "rollout.max_tokens": "max_new_tokens max_completion_length max_response_length "
    "response_length max_output_tokens max_completion_tokens",
    "rollout.context_length": "max_prompt_length max_length max_seq_length max_seq_len "
    "max_model_len max_context_length",
    "rollout.max_turns": "max_tool_calling_iterations max_assistant_turns max_tool_iterations "
    "num_turns",
    "rollout.max_concurrent": "max_concurrency num_workers max_num_seqs",
    "rollout.chain_seconds": "timeout rollout_timeout",
    "train.steps": "max_steps total_training_steps total_steps num_steps num_train_epochs "
    "num_epochs total_epochs",
    "train.lr": "learning_rate actor_lr policy_lr lr_actor",
    "train.schedule": "lr_scheduler_type lr_scheduler lr_schedule",
    "train.warmup_steps": "num_warmup_steps lr_warmup_steps warmup_ratio",
    "train.betas": "adam_beta1 adam_beta2 adam_betas",
    "train.max_grad_norm": "grad_clip gradient_clipping clip_grad max_norm",
    "train.epochs": "ppo_epochs num_iterations num_ppo_epochs updates_per_batch",
    "train.minibatches": "mini_batch_size ppo_mini_batch_size num_mini_batches minibatch_size",
    "train.tokens_per_microbatch": "gradient_accumulation_steps micro_batch_size "
    "ppo_micro_batch_size ppo_micro_batch_size_per_gpu max_token_len_per_gpu",
    "eval.every": "eval_steps eval_every test_freq evaluation_strategy eval_strategy",
    "eval.num_chains": "num_generations_eval",
    "eval.max_tasks": "max_eval_samples val_max_samples",
    "checkpoint.every": "save_steps save_every save_freq save_strategy checkpoint_every",
    "checkpoint.keep": "save_total_limit keep_last max_checkpoints",
    "track.trackers": "report_to logger loggers log_with",
    "track.project": "project_name wandb_project",
    "source": "sources data datasets tasks",
    "source.tasks": "dataset train_dataset dataset_name train_files train_file prompts",
    "source.eval_tasks": "eval_dataset val_dataset val_files val_file test_dataset eval_file",
    "source.reward": "reward_fn reward_func reward_funcs reward_function reward_functions",
    "source.environment": "env environment_factory env_name",
    "source.system_prompt": "system system_message",
}
_NOTES = {
    "rollout.tasks_per_step": "tasks of a step, each attempted by rollout.num_chains chains",
    "train.steps": "a run counts steps of rollout.tasks_per_step tasks, not epochs",
    "train.tokens_per_microbatch": "microbatches are packed by tokens, and the gradient does not "
    "depend on their size",
    "train.minibatches": "the number of updates per step, not their size",
    "source.tasks": "in a table [[source]]",
    "source.eval_tasks": "in a table [[source]]",
    "source.reward": "in a table [[source]]",
    "source.environment": "in a table [[source]]",
    "source.system_prompt": "in a table [[source]]",
    "source": "one table [[source]] for each",
}
_KEYS = {name: key for key, names in _NAMES.items() for name in names.split()}


def our_key(name: str) -> tuple[str, str] | None:
    """Return our key for a name that another framework uses, and a note on what differs.

    >>> our_key("learning_rate")
    ('train.lr', '')
    """
    key = _KEYS.get(name.lower())
    return None if key is None else (key, _NOTES.get(key, ""))
