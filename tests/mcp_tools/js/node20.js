// The suite imports `globSync`, which Node has since version 22. The server scenarios do not call it.
import { register } from "node:module";

const SHIM = 'export * from "node:fs"; export const globSync = () => { throw new Error("needs Node 22"); };';
const HOOKS = `
export async function resolve(specifier, context, next) {
  if (specifier !== "fs" || !context.parentURL?.includes("/conformance/")) return next(specifier, context);
  return { url: "data:text/javascript,${encodeURIComponent(SHIM)}", shortCircuit: true };
}`;

if (Number(process.versions.node.split(".")[0]) < 22) register("data:text/javascript," + encodeURIComponent(HOOKS));
