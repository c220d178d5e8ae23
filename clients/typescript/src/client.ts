import { CALLS, type Calls, type OpenBody, type Problem, type PushBody, type Recall } from "./types.js";

export interface Options {
  /** Of `turnmill serve`; by default http://127.0.0.1:8377. */
  url?: string | undefined;
  /** As `turnmill keys create` printed it. */
  key?: string | undefined;
  /** How often a call is tried again that may succeed later; 2. */
  retries?: number;
  /** Longest wait for one answer; 30,000. */
  timeoutMs?: number;
  fetch?: typeof fetch;
}

export type Dialect = Calls["step"]["query"]["dialect"];

/** A turn, or one message of it. */
export type TurnLike = Omit<PushBody, "messages"> & { messages: Array<object> };

/** A compaction that was committed, as events tell of it. */
export type Commit = { session: string; version: number; strategy: string } & Record<string, unknown>;

/** An error of turnmill's, under its own name: `error` is "UnknownSession", for example. */
export class TurnmillError extends Error {
  readonly status: number;
  readonly error: string;
  readonly transient: boolean;
  readonly retryAfterS: number | undefined;

  constructor(problem: Problem) {
    super(`${problem.error}: ${problem.detail}`);
    this.name = "TurnmillError";
    this.status = problem.status;
    this.error = problem.error;
    this.transient = problem.transient ?? false;
    this.retryAfterS = problem.retry_after_s ?? undefined;
  }
}

/** A client of one namespace: its key's. */
export class Turnmill {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #retries: number;
  readonly #timeoutMs: number;
  readonly #fetch: typeof fetch;

  constructor(options: Options = {}) {
    this.#url = (options.url ?? "http://127.0.0.1:8377").replace(/\/$/, "");
    this.#headers = options.key ? { Authorization: `Bearer ${options.key}` } : {};
    this.#retries = options.retries ?? 2;
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#fetch = options.fetch ?? fetch;
  }

  session(name: string): Session {
    return new Session(this, name);
  }

  /** Any call of the API by its name. */
  async call<K extends keyof Calls>(
    name: K,
    path: Calls[K]["path"],
    body?: Calls[K]["body"],
    query?: Calls[K]["query"],
  ): Promise<Calls[K]["answer"]> {
    const [method, template] = CALLS[name];
    // Of a turn without an id nobody could tell whether it arrived.
    const turn = name === "push" || name === "step" ? (body as PushBody) : undefined;
    const sent = turn ? { ...turn, turn_id: turn.turn_id ?? crypto.randomUUID() } : body;
    const json = sent === undefined ? undefined : JSON.stringify(sent);
    // A fork that arrived is refused the second time, a memory would be kept twice.
    const once = method === "POST" && !turn && name !== "recall";
    for (let tried = 0; ; tried++) {
      try {
        const answer = await this.#send(method, template, path, query ?? {}, json);
        return (answer.status === 204 ? undefined : await answer.json()) as Calls[K]["answer"];
      } catch (error) {
        const later = error instanceof TurnmillError ? error.transient : true;
        const waitMs = 1000 * ((error instanceof TurnmillError && error.retryAfterS) || 0.2 * 2 ** tried);
        if (once || !later || tried >= this.#retries || waitMs > this.#timeoutMs) throw error;
        await new Promise((resolve) => setTimeout(resolve, waitMs));
      }
    }
  }

  /** What compactions saved and cost, by any of session, day, model, with commas. */
  usage = (by = "day") => this.call("usage", {}, undefined, { by });

  /** Commits of the namespace, or of one session, until the connection ends or is aborted. */
  async *events(session = "", signal?: AbortSignal): AsyncGenerator<Commit> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new DOMException("events did not begin in time", "TimeoutError")), this.#timeoutMs);
    const either = signal ? AbortSignal.any([signal, late.signal]) : late.signal;
    const sent = this.#send("GET", CALLS.events[1], {}, { session }, undefined, either);
    const answer = await sent.finally(() => clearTimeout(timer));
    let rest = "";
    for await (const text of answer.body!.pipeThrough(new TextDecoderStream())) {
      const events = (rest + text).split("\n\n");
      rest = events.pop()!;
      for (const event of events) {
        const data = event.split("\n").find((line) => line.startsWith("data: "));
        if (data) yield JSON.parse(data.slice("data: ".length)) as Commit;
      }
    }
  }

  async #send(
    method: string,
    template: string,
    path: object,
    query: object,
    body: string | undefined,
    signal: AbortSignal = AbortSignal.timeout(this.#timeoutMs),
  ): Promise<Response> {
    const parts = path as Record<string, string>;
    const url = new URL(this.#url + template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(parts[name]!)));
    for (const [name, value] of Object.entries(query)) if (value != null) url.searchParams.set(name, `${value}`);
    const headers = body === undefined ? this.#headers : { ...this.#headers, "Content-Type": "application/json" };
    // A conversation goes where it was meant to go, or nowhere. Cloudflare's Workers know no "error" here.
    const sent = { method, headers, body: body ?? null, signal, redirect: "manual" } as const;
    const ask = this.#fetch; // a browser's, as a method of something else, refuses
    const answer = await ask(url, sent).catch((cause) => {
      // Node says "fetch failed", and not of what.
      throw signal.aborted ? cause : new Error(`${this.#url} cannot be reached: ${cause.message}`, { cause });
    });
    if (answer.ok) return answer;
    const { status } = answer;
    const told: Problem | undefined = await answer.json().catch(() => undefined);
    if (told?.error && told.status === status) throw new TurnmillError(told);
    // A proxy's own page, perhaps.
    throw new TurnmillError({ type: "", title: "", status, error: "HTTP", detail: `${status}`, transient: status >= 500 });
  }
}

/** One session. What is not here is `client.call(name, { session: … }, …)`. */
export class Session {
  constructor(
    readonly client: Turnmill,
    readonly name: string,
  ) {}

  open = (body: OpenBody) => this.client.call("open", this.#path, body);
  info = () => this.client.call("info", this.#path);
  forget = () => this.client.call("forget", this.#path);
  push = (turn: TurnLike) => this.client.call("push", this.#path, turn as PushBody);
  /** Push a turn and read the context with it: `request` goes to the model. */
  step = (turn: TurnLike, dialect: Dialect = "") =>
    this.client.call("step", this.#path, turn as PushBody, { dialect });
  read = (dialect: Dialect = "") => this.client.call("read", this.#path, undefined, { dialect });
  rules = () => this.client.call("rules", this.#path);
  /** What the `recall` tool of a model answers: to a query, or to its arguments. */
  recall = async (asked: string | Recall, limit = 5) =>
    (await this.client.call("recall", this.#path, typeof asked === "string" ? { query: asked, limit } : asked)).text;
  /** Another session that begins as this one was, after a turn or now. */
  fork = async (name: string, at?: string | number) => {
    await this.client.call("fork", this.#path, { new_session: name, at: at ?? null });
    return this.client.session(name);
  };
  rewind = (at: string | number) => this.client.call("rewind", this.#path, { at });
  events = (signal?: AbortSignal) => this.client.events(this.name, signal);

  get #path() {
    return { session: this.name };
  }
}
