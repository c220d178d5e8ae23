// Written by tools/client_types.py from the OpenAPI document of `turnmill serve`.

/** Sums over compactions: over all, or over those of one day, session or model. */
export type Bill = { namespace?: string | null; day?: string | null; session?: string | null; model?: string | null; compactions: number; tokens_saved: number; prompt_tokens: number; completion_tokens: number; cost_usd: number; unpriced: number };
/** The state of a session in numbers, without its content. */
export type ContextInfo = { session: string; namespace: string; version: number; watermark: number; last_seq: number; counted_seq: number; usage: Usage; tools_tokens: number; correction: Correction; basis: string; limits: Limits; policy: Policy; pending_bytes: number; total_messages: number; turns_in_log: number; turns_covered: number; compactions: number; interactions: number; images: number; history_tokens: number; quality: number | null; settings: number; policy_name: string; pending_for_s: number | null; due_in_s: number | null; failures: number; parked_for_s: number | null; wait: Wait | null; parent?: string };
/** The provider's tokens for one of those counted. */
export type Correction = { start?: number; ratios?: Array<number> };
/** What forgetting removed; true when there was such a session. */
export type Forgotten = { existed: boolean; keys_left: number };
/** Where another session begins, by default now. */
export type ForkBody = { new_session: string; at?: string | number | null; timeout_s?: number };
/** How a session began that is a fork of another. */
export type Forked = { session: string; of: string; seq: number; version: number };
/** What the namespace remembers about a query. */
export type GroundedContext = { memories?: Array<GroundedMemory>; degraded?: string };
/** A memory found for a query. */
export type GroundedMemory = { id: string; text: string; kind: string; session: string | null; seq?: number | null; speaker: string; at_ms: number; relevance: number };
/** A rule, in the user's words. */
export type InstructBody = { text: string };
/** Absolute token limits of one session, its system prompt and tools counted in. */
export type Limits = { hard: number; soft: number; target: number; room: number };
/** What to open a session with, or change in it; what is left out stays as it is. */
export type OpenBody = { policy?: Policy | string | null; system_prompt?: string | null; tools?: Array<Record<string, unknown>> | null };
/** How far a session may grow, and what is done when it has grown. */
export type Policy = { max_tokens?: number; reserved_tokens?: number; soft_ratio?: number; target_ratio?: number; compact_when_idle_s?: number; idle_ratio?: number | null; summary_ratio?: number; ledger_ratio?: number; recent_turns_to_keep?: number; min_progress_ratio?: number; elide_over_tokens?: number; strategies?: Array<string>; summarizer?: string; model?: string; fallback_model?: string; temperature?: number | null; reasoning_effort?: string; max_output_tokens?: number; batch?: boolean; summary_on?: "turns" | "context"; model_timeout_s?: number; model_attempts?: number; park_after?: number; max_history_images?: number | null; keep_first_image?: boolean; max_interactions?: number | null; keep_recent_iterations?: number; template?: string; recent_runs?: number | null; passthrough_runs?: number | null; token_threshold?: number | null; quality_threshold?: number; quality_weights?: QualityWeights; checkpoint_interval?: number; keep_checkpoints?: number; grounding_memories?: number; grounding_ratio?: number; recall_tool?: boolean; cache_marks?: boolean; dialect?: "" | "chat" | "anthropic" | "responses"; image_formula?: string; encoding?: string; token_ratio?: number; ttl_s?: number };
/** A turn: messages that belong together. Pushed again with its `turn_id` it is stored once. */
export type PushBody = { messages: Array<Record<string, unknown>>; turn_id?: string | null; iteration?: number | null; metadata?: Record<string, unknown> | null; pinned?: boolean; usage?: Record<string, unknown> | number | null; on_too_large?: "raise" | "cut" };
/** Where a turn went. */
export type Pushed = { session: string; seq: number; turn_id: string; duplicate: boolean; checkpoint?: string | null; cut?: number };
/** What the parts of the quality score weigh against each other; only their ratios matter. */
export type QualityWeights = { facts?: number; relevance?: number; freshness?: number; session?: number };
/** A context. `request` goes to the model as it is, beside the model's name and the tools. */
export type Read = { session: string; version: number; watermark: number; last_seq: number; tokens: number; exact: boolean; projection: Receipt | null; dialect: string; request: Record<string, unknown>; left_out: Array<string> };
/** What a model asks for. */
export type Recall = { query?: string | null; limit?: number | null; turn?: number | null; part?: number | null };
/** What a compaction or projection removed, and where it was. */
export type Receipt = { by: string; first_seq: number; last_seq: number; turns: number; tokens: number };
/** A fact or a note that stands by itself. */
export type RememberBody = { text: string; timeout_s?: number };
/** Before which turn to go back. */
export type RewindBody = { at: string | number; timeout_s?: number };
/** What a rollback restored. */
export type RollbackResult = { restored: string; seq: number; version: number; turns_lost: number };
/** A rule in force; `id` ends it. */
export type RuleInForce = { id: string; seq: number; text: string; revised: number | null };
/** Some sessions of a namespace, the most recently pushed first. */
export type SessionPage = { sessions: Array<string>; after: string | null };
/** What a requested summarization did. */
export type SummarizationResult = { tokens_before: number; tokens_after: number; turns_summarized: number; summary: string; version: number; reason?: string };
/** How to summarize; the policy decides what is left out. */
export type SummarizeBody = { template?: string; timeout_s?: number };
/** Tokens of a context, by part. */
export type Usage = { system?: number; summary?: number; tail?: number; pending?: number };
/** What keeps a session from being compacted though it is due. */
export type Wait = { on: "turn" | "model" | "batch" | "worker"; for_s: number | null; failed?: Array<string>; tries?: number };
/** Why a call failed. */
export type Problem = { type: string; title: string; status: number; detail: string; error: string; transient?: boolean; retry_after_s?: number | null };

/** Each call by its name. */
export interface Calls {
  healthz: { path: {  }; query: {  }; body: undefined; answer: { status: string } };
  readyz: { path: {  }; query: {  }; body: undefined; answer: { status: string } };
  sessions: { path: {  }; query: { limit?: number; after?: string }; body: undefined; answer: SessionPage };
  usage: { path: {  }; query: { by?: string }; body: undefined; answer: Array<Bill> };
  open: { path: { session: string }; query: {  }; body: OpenBody; answer: undefined };
  info: { path: { session: string }; query: {  }; body: undefined; answer: ContextInfo };
  forget: { path: { session: string }; query: {  }; body: undefined; answer: Forgotten };
  push: { path: { session: string }; query: {  }; body: PushBody; answer: Pushed };
  read: { path: { session: string }; query: { dialect?: "" | "chat" | "anthropic" | "responses"; beside?: number }; body: undefined; answer: Read };
  step: { path: { session: string }; query: { dialect?: "" | "chat" | "anthropic" | "responses"; beside?: number }; body: PushBody; answer: Read };
  summarize: { path: { session: string }; query: {  }; body: SummarizeBody; answer: SummarizationResult };
  transcript: { path: { session: string }; query: {  }; body: undefined; answer: { text: string } };
  rules: { path: { session: string }; query: {  }; body: undefined; answer: Array<RuleInForce> };
  instruct: { path: { session: string }; query: {  }; body: InstructBody; answer: Pushed };
  revoke: { path: { session: string; rule: string }; query: {  }; body: undefined; answer: Pushed };
  recall: { path: { session: string }; query: {  }; body: Recall; answer: { text: string } };
  ground: { path: {  }; query: { query: string; k?: number; session?: string | null }; body: undefined; answer: GroundedContext };
  remember: { path: {  }; query: {  }; body: RememberBody; answer: { id: string } };
  fork: { path: { session: string }; query: {  }; body: ForkBody; answer: Forked };
  rewind: { path: { session: string }; query: {  }; body: RewindBody; answer: RollbackResult };
  events: { path: {  }; query: { session?: string }; body: undefined; answer: string };
}

export const CALLS = {
  healthz: ["GET", "/healthz"],
  readyz: ["GET", "/readyz"],
  sessions: ["GET", "/v1/sessions"],
  usage: ["GET", "/v1/usage"],
  open: ["PUT", "/v1/sessions/{session}"],
  info: ["GET", "/v1/sessions/{session}"],
  forget: ["DELETE", "/v1/sessions/{session}"],
  push: ["POST", "/v1/sessions/{session}/turns"],
  read: ["GET", "/v1/sessions/{session}/context"],
  step: ["POST", "/v1/sessions/{session}/step"],
  summarize: ["POST", "/v1/sessions/{session}/summarize"],
  transcript: ["GET", "/v1/sessions/{session}/transcript"],
  rules: ["GET", "/v1/sessions/{session}/rules"],
  instruct: ["POST", "/v1/sessions/{session}/rules"],
  revoke: ["DELETE", "/v1/sessions/{session}/rules/{rule}"],
  recall: ["POST", "/v1/sessions/{session}/recall"],
  ground: ["GET", "/v1/memories"],
  remember: ["POST", "/v1/memories"],
  fork: ["POST", "/v1/sessions/{session}/fork"],
  rewind: ["POST", "/v1/sessions/{session}/rewind"],
  events: ["GET", "/v1/events"],
} as const;
