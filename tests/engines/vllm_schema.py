"""What vLLM 0.32 takes, field by field, read from its published protocol classes.

vLLM itself ignores fields that it doesn't know; here they are errors, because a parameter that is
silently dropped is the mistake that these models are there to catch.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
TokenId = Annotated[int, Field(ge=0)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class WireSamplingParams(Strict):
    """`vllm.sampling_params.SamplingParams` as JSON."""

    n: Annotated[int, Field(ge=1)] = 1
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    watermarking: bool | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=-1)] = 0
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    seed: Int64 | None = None
    stop: str | list[Annotated[str, Field(min_length=1)]] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: Annotated[int, Field(ge=1)] | None = 16
    min_tokens: Annotated[int, Field(ge=0)] = 0
    logprobs: Annotated[int, Field(ge=-1)] | None = None
    prompt_logprobs: Annotated[int, Field(ge=-1)] | None = None
    prompt_logprob_token_ids: list[list[int]] | None = None
    prompt_logprob_start: int | None = None
    logprob_token_ids: list[int] | None = None
    flat_logprobs: bool = False
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False
    stream_interval: Annotated[int, Field(ge=1)] | None = None
    logit_bias: dict[int, float] | None = None
    allowed_token_ids: list[int] | None = None
    extra_args: dict[str, Any] | None = None
    bad_words: list[str] | None = None
    skip_reading_prefix_cache: bool | None = None
    thinking_token_budget: int | None = None
    routed_experts_prompt_start: int = 0
    trace_decode_token_ids: list[int] | None = None

    @model_validator(mode="after")
    def stop_strings_need_text(self) -> "WireSamplingParams":
        if self.stop and not self.detokenize:
            raise ValueError("stop strings are only supported when detokenize is true")
        return self


class GenerateRequest(Strict):
    """Body of POST /inference/v1/generate."""

    request_id: str | None = None
    token_ids: list[TokenId] = Field(min_length=1)
    sampling_params: WireSamplingParams
    model: str | None = None
    return_token_ids: bool | None = None
    output_mode: Literal["tokens", "text"] = "tokens"
    stream: bool | None = False
    stream_options: dict[str, bool] | None = None
    cache_salt: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    priority: Int64 = 0
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: dict[str, Any] | None = None
    kv_transfer_params: dict[str, Any] | None = None
    ec_transfer_params: dict[str, Any] | None = None


class CompletionRequest(Strict):
    """Body of POST /v1/completions, as far as it concerns token ids."""

    model: str | None = None
    prompt: list[TokenId] | list[list[TokenId]] | str | list[str] | None = None
    echo: bool | None = False
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: int | None = None
    max_tokens: int | None = 16
    n: int = 1
    presence_penalty: float | None = None
    seed: Int64 | None = None
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: dict[str, bool] | None = None
    suffix: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    min_tokens: int = 0
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    add_special_tokens: bool = True
    priority: Int64 = 0
    request_id: str | None = None
    session_id: str | None = None
    return_tokens_as_token_ids: bool | None = None
    return_token_ids: bool | None = None
    stream_interval: int | None = None


class InitWeightTransfer(Strict):
    """Body of POST /init_weight_transfer_engine."""

    init_info: "NcclInitInfo"


class NcclInitInfo(Strict):
    master_address: str | None = None
    master_port: int | None = None
    rank_offset: int
    world_size: int
    nccl_unique_id_b64: str | None = None
    packed: bool = False
    packed_buffer_size_bytes: int = 2**30
    packed_num_buffers: int = 2

    @model_validator(mode="after")
    def one_way_to_meet(self) -> "NcclInitInfo":
        by_address = self.master_address is not None and self.master_port is not None
        if by_address == (self.nccl_unique_id_b64 is not None):
            raise ValueError("either master_address and master_port, or nccl_unique_id_b64")
        return self


class UpdateWeights(Strict):
    """Body of POST /update_weights."""

    update_info: "NcclUpdateInfo"


class NcclUpdateInfo(Strict):
    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]

    @model_validator(mode="after")
    def one_length(self) -> "NcclUpdateInfo":
        if not len(self.names) == len(self.dtype_names) == len(self.shapes):
            raise ValueError("names, dtype_names and shapes must have one length")
        return self


class FinishWeightUpdate(Strict):
    """Body of POST /finish_weight_update; may be missing."""

    weight_version: str | None = None


class UpdateWeightVersion(Strict):
    """Body of POST /update_weight_version."""

    new_version: str


class LoadLoraAdapter(Strict):
    """Body of POST /v1/load_lora_adapter."""

    lora_name: str
    lora_path: str
    load_inplace: bool = False
    is_3d_lora_weight: bool = False


class AbortRequests(Strict):
    """Body of POST /abort_requests; no ids means all."""

    request_ids: list[str] | None = None


class Pause(BaseModel):
    """Query of POST /pause."""

    model_config = ConfigDict(extra="forbid")

    mode: Literal["abort", "wait", "keep"] = "abort"
    clear_cache: bool = True


class ResetPrefixCache(BaseModel):
    """Query of POST /reset_prefix_cache."""

    model_config = ConfigDict(extra="forbid")

    reset_running_requests: bool = False
    reset_external: bool = False


class CollectiveRpc(Strict):
    """The body of `/collective_rpc`, which has no protocol class."""

    method: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    timeout: float | None = None
