import type { Session } from "./client.js";

/** A message of the AI SDK, as far as it matters here. */
interface SdkMessage {
  role: string;
  content: unknown;
}
interface Part {
  type: string;
  text?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  output?: { type: string; value?: unknown; reason?: string };
  [more: string]: unknown;
}
interface ChatMessage {
  role: string;
  content?: unknown;
  tool_calls?: Array<{ id: string; type: "function"; function: { name: string; arguments: string } }>;
  tool_call_id?: string;
  name?: string;
}

/** What `prepareStep` of the AI SDK is given; 5 and 6 tell no `initialMessages`. */
interface Asked<M> {
  messages: M[];
  initialMessages?: M[];
  responseMessages?: M[];
}

export interface PrepareOptions {
  /**
   * What the AI SDK is called with: "all" of the conversation, the default, as useChat sends it; or
   * only what is "new". Of all, what was pushed before is known by its content; what is new, is new.
   */
  given?: "all" | "new";
  /** Told of what failed; `console.warn` by default. */
  onFailure?: (error: unknown) => void;
}

/**
 * `prepareStep` of the AI SDK: pushes the messages that are new, each once whatever is tried again,
 * and has the model get the session's context. What stands in it word for word is the SDK's own
 * object. If turnmill cannot be asked, the model gets what the SDK has.
 */
export function prepareStep(session: Session, options: PrepareOptions = {}) {
  const onFailure = options.onFailure ?? console.warn;
  const request = options.given === "new" ? `${crypto.randomUUID()}-` : "";
  const known = new Map<string, unknown>();
  const pushed = new Set<string>();

  return async <M extends SdkMessage>(asked: Asked<M>): Promise<{ messages?: M[]; system?: string }> => {
    const all = asked.initialMessages
      ? [...asked.initialMessages, ...(asked.responseMessages ?? [])]
      : asked.messages;
    try {
      const turns = [];
      const seen = new Map<string, number>();
      for (const messages of together(all)) {
        const chat = messages.flatMap((message) => toChat(message, known));
        const body = canonical(chat);
        const time = (seen.get(body) ?? 0) + 1;
        seen.set(body, time);
        const turn_id = `ai-${request}${await digest(body)}-${time}`;
        if (chat.length > 0 && !pushed.has(turn_id)) turns.push({ messages: chat, turn_id, on_too_large: "cut" as const });
      }
      const last = turns.pop();
      for (const turn of turns) pushed.add((await session.push(turn)).turn_id);
      const context = last ? await session.step(last, "chat") : await session.read("chat");
      if (last) pushed.add(last.turn_id);
      const read = context.request.messages as ChatMessage[];
      const [first] = read;
      const system = first?.role === "system" ? String(first.content) : undefined;
      const messages = fromChat(system === undefined ? read : read.slice(1), known) as M[];
      return { messages, ...(system === undefined ? {} : { system }) };
    } catch (error) {
      onFailure(error);
      return {};
    }
  };
}

/** The turns: results stay with the calls that they answer. */
function together<M extends SdkMessage>(messages: M[]): M[][] {
  const turns: M[][] = [];
  for (const message of messages) {
    if (message.role === "tool" && turns.length > 0) turns.at(-1)!.push(message);
    else turns.push([message]);
  }
  return turns;
}

function toChat(message: SdkMessage, known: Map<string, unknown>): ChatMessage[] {
  const parts: Part[] =
    typeof message.content === "string" ? [{ type: "text", text: message.content }] : (message.content as Part[]);
  const keep = (chat: ChatMessage, own: unknown) => (known.set(canonical(chat), own), chat);
  const results = parts
    .filter((part) => part.type === "tool-result")
    .map((part) => keep({ role: "tool", tool_call_id: part.toolCallId!, name: part.toolName!, content: shown(part) }, part));
  if (message.role === "tool") return results;
  const calls = parts.filter((part) => part.type === "tool-call");
  const content = parts.flatMap((part) => said(part));
  const texts = content.every((part) => part.type === "text");
  const chat: ChatMessage = { role: message.role, content: texts ? content.map((part) => part.text).join("\n") : content };
  if (calls.length > 0) {
    chat.tool_calls = calls.map((part) => ({
      id: part.toolCallId!,
      type: "function",
      function: { name: part.toolName!, arguments: JSON.stringify(part.input ?? {}) },
    }));
  }
  return [keep(chat, message), ...results]; // of tools that the provider runs itself
}

function said(part: Part): Array<Record<string, unknown>> {
  if (part.type === "text") return [{ type: "text", text: part.text }];
  if (part.type !== "image" && part.type !== "file") return []; // thinking goes along with the SDK's own object
  const given = (part["image"] ?? part["data"]) as { data?: unknown; url?: unknown; text?: string } | undefined;
  if (given?.text !== undefined) return [{ type: "text", text: given.text }];
  const data: unknown = given?.data ?? given?.url ?? given; // version 7 says which of them it is
  const kind = String(part["mediaType"] ?? "image/png");
  const bytes = data instanceof ArrayBuffer ? new Uint8Array(data) : data;
  const isRead = typeof bytes === "string" || bytes instanceof URL || bytes instanceof Uint8Array;
  if (!/^image\b/.test(kind) || !isRead) return [{ type: "text", text: `[a file, ${kind}]` }];
  const media = /^image\/\w/.test(kind) ? kind : "image/png";
  const coded = bytes instanceof Uint8Array ? btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")) : `${bytes}`;
  const url = /^(data|https?):/.test(coded) ? coded : `data:${media};base64,${coded}`;
  return [{ type: "image_url", image_url: { url } }];
}

function shown({ output }: Part): string {
  if (output === undefined) return "";
  if (output.type === "execution-denied") return `denied: ${output.reason ?? ""}`;
  return typeof output.value === "string" ? output.value : (JSON.stringify(output.value) ?? "null");
}

function fromChat(messages: ChatMessage[], known: Map<string, unknown>): SdkMessage[] {
  const names = new Map(messages.flatMap((m) => (m.tool_calls ?? []).map((call) => [call.id, call.function.name])));
  const found: SdkMessage[] = [];
  const within = new Set<unknown>();
  for (const message of messages) {
    const own = known.get(canonical(message));
    if (message.role !== "tool") {
      found.push((own as SdkMessage | undefined) ?? made(message));
      const { content } = found.at(-1)!;
      if (Array.isArray(content)) for (const part of content) if (part.type === "tool-result") within.add(part.toolCallId);
      continue;
    }
    if (within.has(message.tool_call_id)) continue;
    const toolName = names.get(message.tool_call_id!) ?? message.name ?? "";
    const output = { type: "text", value: texts(message.content) };
    const part = own ?? { type: "tool-result", toolCallId: message.tool_call_id, toolName, output };
    const last = found.at(-1);
    if (last?.role === "tool") (last.content as unknown[]).push(part);
    else found.push({ role: "tool", content: [part] });
  }
  return found;
}

function made(message: ChatMessage): SdkMessage {
  const content = typeof message.content === "string" ? [{ type: "text", text: message.content }] : ((message.content ?? []) as Part[]);
  const parts: Part[] = content.map((part) =>
    part.type === "image_url" ? { type: "image", image: new URL((part as any).image_url.url) } : part,
  );
  for (const call of message.tool_calls ?? []) {
    const input: unknown = JSON.parse(call.function.arguments || "{}");
    parts.push({ type: "tool-call", toolCallId: call.id, toolName: call.function.name, input });
  }
  return { role: message.role, content: parts.filter((part) => part.type !== "text" || part.text !== "") };
}

const texts = (content: unknown): string =>
  typeof content === "string" ? content : ((content ?? []) as Part[]).map((part) => part.text ?? "").join("\n");

/** JSON that does not depend on the order of fields. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, found) =>
    found && typeof found === "object" && !Array.isArray(found)
      ? Object.fromEntries(Object.entries(found).sort(([a], [b]) => (a < b ? -1 : 1)))
      : found,
  );
}

async function digest(text: string): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(hash).slice(0, 12), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
