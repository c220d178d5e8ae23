export * from "./client.js";
export * from "./prepare-step.js";
export type * from "./types.js";
