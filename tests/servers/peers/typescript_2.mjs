// A server of the official TypeScript SDK 2.x: `node typescript_2.mjs stdio|http [PORT]`.
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { acceptedContent, createMcpHandler, inputRequired, inputResponse, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const [transport, port] = process.argv.slice(2);
const Person = z.object({ name: z.string() });
const say = text => ({ content: [{ type: 'text', text: String(text) }] });
let stopped = 0;
let handler;

function build() {
    const server = new McpServer({ name: 'typescript 2', version: '1.0.0' });
    const numbers = z.object({ first: z.int(), second: z.int() });
    server.registerTool('add', { description: 'Add two numbers.', inputSchema: numbers }, async ({ first, second }) => say(first + second));
    server.registerTool(
        'wait',
        { description: 'Wait, and say so thrice before.', inputSchema: z.object({ seconds: z.number() }) },
        async ({ seconds }, ctx) => {
            const progressToken = ctx.mcpReq._meta?.progressToken;
            try {
                for (const progress of progressToken === undefined ? [] : [1, 2, 3]) {
                    await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 3 } });
                }
                await sleep(seconds * 1000, undefined, { signal: ctx.mcpReq.signal });
            } catch (error) {
                stopped += 1;
                throw error;
            }
            return say('waited');
        }
    );
    server.registerTool('count_stopped', { description: 'Say how many calls have been cancelled.' }, async () => say(stopped));
    server.registerTool('change', { description: 'Tell of a change.' }, async () => {
        if (handler) handler.notify.toolsChanged();
        else server.sendToolListChanged();
        return say('told');
    });
    server.registerTool('ask_name', { description: 'Ask for a name.' }, async ctx => {
        const person = acceptedContent(ctx.mcpReq.inputResponses, 'who', Person);
        if (person) return say(person.name);
        return inputRequired({ inputRequests: { who: inputRequired.elicit({ message: 'Who are you?', requestedSchema: Person }) } });
    });
    server.registerTool('ask_model', { description: "Ask the client's model." }, async ctx => {
        const answer = inputResponse(ctx.mcpReq.inputResponses, 'capital');
        if (answer.kind === 'sampling') return say(answer.result.content.text);
        const content = { type: 'text', text: 'The capital of Norway?' };
        return inputRequired({
            inputRequests: { capital: inputRequired.createMessage({ messages: [{ role: 'user', content }], maxTokens: 10 }) }
        });
    });
    server.registerTool('ask_roots', { description: 'Ask for the roots.' }, async ctx => {
        const answer = inputResponse(ctx.mcpReq.inputResponses, 'roots');
        if (answer.kind === 'roots') return say(answer.roots.map(root => root.uri).join(', '));
        return inputRequired({ inputRequests: { roots: inputRequired.listRoots() } });
    });
    server.registerResource('note', 'note://hello', { mimeType: 'text/plain' }, async uri => ({
        contents: [{ uri: uri.href, text: 'Hello' }]
    }));
    server.registerPrompt('greet', { description: 'Greet somebody.', argsSchema: z.object({ name: z.string() }) }, async ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}` } }]
    }));
    return server;
}

if (transport === 'stdio') {
    serveStdio(build);
} else {
    handler = createMcpHandler(build);
    createServer(toNodeHandler(handler)).listen(Number(port), '127.0.0.1');
}
