// What the gateway says, as types. docs/api.md tells what they mean; nothing here reaches a browser.

export type Id = string;
export type Place = [number, number];

export interface Actor { name: string; via: string }
export interface Tokens { input: number; output: number; cache_read: number; cache_write: number }

export interface Me { name: string; role: "watch" | "drive" | "admin"; via: string; version: string; roots: string[]; demo?: boolean }

export interface Session {
  id: Id; title?: string | null; cwd: string;
  status: "idle" | "running" | "waiting" | "dead" | "failed";
  tier: "needs_you" | "running" | "idle";
  model?: string | null; mode?: string | null; effort?: string | null;
  created: number; active: number; last: number; turn: number;
  requests: number; branch?: string;
}

export interface Head { session?: string; title?: string; model?: string; mode?: string; effort?: string; cwd?: string; version?: string; suggestion?: string }

export interface Phase {
  is: "idle" | "starting" | "working" | "thinking" | "writing" | "running" | "waiting" | "retrying" | "compacting" | "interrupting" | "stalled" | "gone";
  tokens?: number; tool?: string; target?: string; item?: string; others?: number; requests?: number;
  attempt?: number; of?: number; delay_ms?: number; seconds?: number;
  why?: { cause: string; message?: string; code?: number; signal?: number; stderr?: string };
}
export interface Status { phase: Phase; since?: number; turn_since?: number }

export interface WaitingPrompt { id: Id; text: string; images?: number; delivery: "queue" | "steer"; state: PromptState; by?: Actor; at?: number }
export type PromptState = "queued" | "written" | "accepted" | "done" | "cancelled" | "indeterminate";

export interface Request {
  id: string; item?: string; wants: "permission" | "answers" | "plan_approval";
  tool: string; verb: string; target?: string; input: string; description?: string; reason?: string;
  blocked_path?: string; suggestions?: string; at?: number; expires?: number; html?: string;
}
export interface Todo { id?: string; text: string; doing?: string; state: "pending" | "doing" | "done" }
export interface Usage { tokens: Tokens; cost?: number; context?: number; window?: number; plan?: { status?: string; window?: string; resets_at?: number; used?: number } }

export interface Call {
  tool: string; verb: string; target?: string;
  state: "writing" | "waiting" | "running" | "done" | "failed" | "denied" | "unanswered";
  began?: number; ended?: number; request?: string; pictures?: number; seq?: number;
}
export interface Prompt { id?: Id; text: string; images?: number; state: PromptState; speaker: "person" | "program" | "agent"; by?: Actor }

export interface Item {
  id: string; turn: number; parent?: string; place: Place; rev: number; first: number; at?: number; open?: boolean;
  kind: string; html: string; settled?: number; cut?: boolean; call?: Call; prompt?: Prompt; housekeeping?: boolean;
  /** What grew since `html` came; kept so that the element can be made anew. */
  grown?: { settled: string; open: string };
}
export interface Turn {
  number: number; rev: number; first: number; began?: number; prompts?: string[]; origin?: string; tokens: Tokens; cost?: number; forgotten?: boolean;
  files?: { path: string; times: number }[]; end?: { how?: unknown; reason?: string; at?: number; duration_ms?: number }; html: string;
}

export type Patch =
  | { patch: "item"; item: Item }
  | { patch: "grow"; id: string; rev: number; at: number; settled: string; open: string }
  | { patch: "gone"; id: string }
  | { patch: "turn"; turn: Turn }
  | { patch: "head"; head: Head }
  | { patch: "status"; status: Status }
  | { patch: "queue"; queue: WaitingPrompt[] }
  | { patch: "requests"; requests: Request[] }
  | { patch: "todos"; todos: Todo[] }
  | { patch: "usage"; usage: Usage };

export interface Snapshot {
  frame: "snapshot"; revision: number; head: Head; status: Status; queue: WaitingPrompt[]; requests: Request[];
  todos: Todo[]; usage: Usage; turns: Turn[]; items: Item[]; more: boolean;
}
export type Frame =
  | Snapshot
  | { frame: "update"; from: number; to: number; patches: Patch[] }
  | { frame: "heartbeat"; at: number }
  | { frame: "gone" }
  | { frame: "sessions"; sessions: Session[] }
  | { frame: "session"; session: Session }
  | { frame: "session_gone"; id: Id };

export interface Page { items: Item[]; turns: Turn[]; more: boolean }
export interface Abilities { commands: { name: string; description?: string; argument_hint?: string }[]; models: { value: string; name?: string; description?: string }[] }
export interface Question { question: string; header?: string; multiSelect?: boolean; options: { label: string; description?: string }[] }
export interface UsageRow { day: string; session: Id; title?: string; model?: string; cost?: number; turns: number; tokens: Tokens }
export interface Directory { path: string; name: string; project?: boolean }
export interface Picture { media_type: string; data: string; name: string }
export interface Grant { id: Id; session?: Id | null; directory?: string | null; tool: string; pattern?: string | null; until?: number | null; by: Actor; created: number }
export interface Token { name: string; role: Me["role"]; created: number }
export interface TouchedFile { path: string; times: number; turns: number[] }
export interface ChangedFile { path: string; times: number; added: number; removed: number; html: string }
/** What the agent says of files that it would put back. */
export interface RewindPreview { canRewind?: boolean; error?: string; filesChanged?: string[]; insertions?: number; deletions?: number }
export interface Resolution { outcome: string; by?: Actor; message?: string; at?: number }
